target triple = "amdgcn-amd-amdhsa"
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
define amdgpu_kernel void @kernel(ptr addrspace(1) noundef %p0, ptr addrspace(1) noundef %p1, i64 noundef %s0) #0 {
entry:
  br label %loop1
loop1:
  %i2 = phi i64 [ 0, %entry ], [ %v11, %loop1 ]
  %r3 = phi <4 x float> [ splat (float 0x0000000000000000), %entry ], [ %v8, %loop1 ]
  %r4 = phi <4 x float> [ splat (float 0x0000000000000000), %entry ], [ %v10, %loop1 ]
  %v5 = mul nsw i64 %i2, 4
  %v6 = getelementptr float, ptr addrspace(1) %p0, i64 %v5
  %v7 = load <4 x float>, ptr addrspace(1) %v6, align 4
  %v8 = fadd <4 x float> %r3, %v7
  %v9 = fmul <4 x float> %v7, %v7
  %v10 = fadd <4 x float> %r4, %v9
  %v11 = add nsw i64 %i2, 1
  %v12 = icmp slt i64 %v11, 8
  br i1 %v12, label %loop1, label %loop1.end
loop1.end:
  %v14 = icmp slt i64 0, %s0
  br i1 %v14, label %head15, label %loop13.end
head15:
  br label %loop13
loop13:
  %i16 = phi i64 [ 0, %head15 ], [ %v22, %loop13 ]
  %r17 = phi <4 x float> [ %v8, %head15 ], [ %v21, %loop13 ]
  %v18 = mul nsw i64 %i16, 4
  %v19 = getelementptr float, ptr addrspace(1) %p0, i64 %v18
  %v20 = load <4 x float>, ptr addrspace(1) %v19, align 4
  %v21 = fsub <4 x float> %r17, %v20
  %v22 = add nsw i64 %i16, 1
  %v23 = icmp slt i64 %v22, %s0
  br i1 %v23, label %loop13, label %loop13.end
loop13.end:
  %v24 = phi <4 x float> [ %v8, %loop1.end ], [ %v21, %loop13 ]
  %v25 = fadd <4 x float> %v24, %v10
  store <4 x float> %v25, ptr addrspace(1) %p1, align 4
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="gfx1100" "target-features"="+wavefrontsize32" "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-hostcall-ptr" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" "amdgpu-no-workgroup-id-x" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-x" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" }

target triple = "amdgcn-amd-amdhsa"
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
define amdgpu_kernel void @kernel(ptr addrspace(1) noundef %p0, ptr addrspace(1) noundef %p1) #0 {
entry:
  br label %loop1
loop1:
  %i2 = phi i32 [ 0, %entry ], [ %v17, %loop1 ]
  %v3 = mul nsw i32 %i2, 4
  %v4 = add nsw i32 %v3, 0
  %v5 = zext nneg i32 %v3 to i64
  %v6 = getelementptr float, ptr addrspace(1) %p0, i64 %v5
  %v7 = load <4 x float>, ptr addrspace(1) %v6, align 16
  %v8 = add nsw i32 %v3, 64
  %v9 = getelementptr float, ptr addrspace(1) %v6, i64 64
  %v10 = load <4 x float>, ptr addrspace(1) %v9, align 16
  %v11 = add nsw i32 %v3, 128
  %v12 = getelementptr float, ptr addrspace(1) %v6, i64 128
  %v13 = load <4 x float>, ptr addrspace(1) %v12, align 16
  %v14 = fadd <4 x float> %v7, %v10
  %v15 = fadd <4 x float> %v14, %v13
  %v16 = getelementptr float, ptr addrspace(1) %p1, i64 %v5
  store <4 x float> %v15, ptr addrspace(1) %v16, align 4
  %v17 = add nsw i32 %i2, 1
  %v18 = icmp slt i32 %v17, 16
  br i1 %v18, label %loop1, label %loop1.end
loop1.end:
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="gfx1100" "target-features"="+wavefrontsize32" "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-hostcall-ptr" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" "amdgpu-no-workgroup-id-x" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-x" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" }

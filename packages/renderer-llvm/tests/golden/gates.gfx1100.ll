target triple = "amdgcn-amd-amdhsa"
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
define amdgpu_kernel void @kernel(ptr addrspace(1) noundef %p0, ptr addrspace(1) noundef %p1, i64 noundef %s0) #0 {
entry:
  %v1 = icmp slt i64 %s0, 64
  %v2 = getelementptr float, ptr addrspace(1) %p0, i64 %s0
  br i1 %v1, label %on3, label %off4
on3:
  %v5 = load float, ptr addrspace(1) %v2, align 4
  br label %off4
off4:
  %v6 = phi float [ %v5, %on3 ], [ 0x3FF0000000000000, %entry ]
  %v7 = load <4 x float>, ptr addrspace(1) %p0, align 4
  %v8 = insertelement <4 x i1> poison, i1 %v1, i64 0
  %v9 = shufflevector <4 x i1> %v8, <4 x i1> poison, <4 x i32> zeroinitializer
  br i1 %v1, label %on10, label %off11
on10:
  %v12 = load <4 x float>, ptr addrspace(1) %v2, align 4
  br label %off11
off11:
  %v13 = phi <4 x float> [ %v12, %on10 ], [ %v7, %off4 ]
  %v14 = insertelement <4 x float> poison, float %v6, i64 0
  %v15 = shufflevector <4 x float> %v14, <4 x float> poison, <4 x i32> zeroinitializer
  %v16 = fadd <4 x float> %v13, %v15
  %v17 = getelementptr float, ptr addrspace(1) %p1, i64 %s0
  br i1 %v1, label %on18, label %off19
on18:
  store <4 x float> %v16, ptr addrspace(1) %v17, align 4
  br label %off19
off19:
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="gfx1100" "target-features"="+wavefrontsize32" "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-hostcall-ptr" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" "amdgpu-no-workgroup-id-x" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-x" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" }

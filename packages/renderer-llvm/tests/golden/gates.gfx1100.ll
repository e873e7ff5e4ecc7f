target triple = "amdgcn-amd-amdhsa"
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
define amdgpu_kernel void @kernel(ptr addrspace(1) noundef %p0, ptr addrspace(1) noundef %p1, i64 noundef %s0) #0 {
entry:
  %v1 = icmp slt i64 %s0, 64
  %v2 = select i1 %v1, i64 %s0, i64 0
  %v3 = getelementptr float, ptr addrspace(1) %p0, i64 %v2
  %v4 = load float, ptr addrspace(1) %v3, align 4
  %v5 = select i1 %v1, float %v4, float 0x3FF0000000000000
  %v6 = load <4 x float>, ptr addrspace(1) %p0, align 4
  %v7 = insertelement <4 x i1> poison, i1 %v1, i64 0
  %v8 = shufflevector <4 x i1> %v7, <4 x i1> poison, <4 x i32> zeroinitializer
  %v9 = select i1 %v1, i64 %s0, i64 0
  %v10 = getelementptr float, ptr addrspace(1) %p0, i64 %v9
  %v11 = load <4 x float>, ptr addrspace(1) %v10, align 4
  %v12 = select i1 %v1, <4 x float> %v11, <4 x float> %v6
  %v13 = insertelement <4 x float> poison, float %v5, i64 0
  %v14 = shufflevector <4 x float> %v13, <4 x float> poison, <4 x i32> zeroinitializer
  %v15 = fadd <4 x float> %v12, %v14
  %v16 = getelementptr float, ptr addrspace(1) %p1, i64 %s0
  br i1 %v1, label %on17, label %off18
on17:
  store <4 x float> %v15, ptr addrspace(1) %v16, align 4
  br label %off18
off18:
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="gfx1100" "target-features"="+wavefrontsize32" "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-hostcall-ptr" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" "amdgpu-no-workgroup-id-x" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-x" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" }

target triple = "amdgcn-amd-amdhsa"
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
define amdgpu_kernel void @kernel(ptr addrspace(1) noundef %p0, ptr addrspace(1) noundef %p1) #0 {
entry:
  %v1 = load <4 x float>, ptr addrspace(1) %p0, align 4
  %v2 = getelementptr float, ptr addrspace(1) %p0, i64 4
  %v3 = load <4 x float>, ptr addrspace(1) %v2, align 4
  %v4 = shufflevector <4 x float> %v1, <4 x float> %v3, <4 x i32> <i32 0, i32 2, i32 4, i32 6>
  %v5 = extractelement <4 x float> %v1, i64 3
  %v6 = extractelement <4 x float> %v3, i64 0
  %v7 = insertelement <4 x float> <float poison, float 0x3FF0000000000000, float poison, float 0x4000000000000000>, float %v5, i64 0
  %v8 = insertelement <4 x float> %v7, float %v6, i64 2
  %v9 = fadd <4 x float> %v4, %v8
  store <4 x float> %v9, ptr addrspace(1) %p1, align 4
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="gfx1100" "target-features"="+wavefrontsize32" "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-hostcall-ptr" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" "amdgpu-no-workgroup-id-x" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-x" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" }

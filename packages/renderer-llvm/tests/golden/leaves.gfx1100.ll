target triple = "amdgcn-amd-amdhsa"
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
define amdgpu_kernel void @kernel(ptr addrspace(1) noundef %p0, ptr addrspace(1) noundef %p1, ptr addrspace(1) noundef %p2, i64 noundef %s0, i64 noundef %s1) #0 {
entry:
  %v1 = trunc i64 %s0 to i32
  %v2 = getelementptr i64, ptr addrspace(1) %p1, i64 %s1
  store i64 7, ptr addrspace(1) %v2, align 8
  store i32 %v1, ptr addrspace(1) %p0, align 4
  %v3 = getelementptr float, ptr addrspace(1) %p2, i64 1
  store float 0x8000000000000000, ptr addrspace(1) %v3, align 4
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="gfx1100" "target-features"="+wavefrontsize32" "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-hostcall-ptr" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" "amdgpu-no-workgroup-id-x" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-x" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" }

target triple = "amdgcn-amd-amdhsa"
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
define amdgpu_kernel void @kernel(ptr addrspace(1) noundef %p0) #0 {
entry:
  %v1 = call i32 @llvm.amdgcn.workgroup.id.x()
  %v2 = call i32 @llvm.amdgcn.workgroup.id.y()
  %v3 = call i32 @llvm.amdgcn.workgroup.id.z()
  %v4 = call i32 @llvm.amdgcn.workitem.id.x()
  %v5 = call i32 @llvm.amdgcn.workitem.id.y()
  %v6 = call i32 @llvm.amdgcn.workitem.id.z()
  %v7 = zext i32 %v4 to i64
  %v8 = add nsw i32 %v1, %v2
  %v9 = add nsw i32 %v8, %v3
  %v10 = add nsw i32 %v9, %v4
  %v11 = add nsw i32 %v10, %v5
  %v12 = add nsw i32 %v11, %v6
  %v13 = trunc i64 %v7 to i32
  %v14 = zext nneg i32 %v12 to i64
  %v15 = getelementptr i32, ptr addrspace(1) %p0, i64 %v14
  store i32 %v13, ptr addrspace(1) %v15, align 4
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="gfx1100" "target-features"="+wavefrontsize32" "amdgpu-flat-work-group-size"="32,32" "uniform-work-group-size"="true" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-hostcall-ptr" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" }

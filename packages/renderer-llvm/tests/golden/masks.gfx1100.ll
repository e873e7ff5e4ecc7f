target triple = "amdgcn-amd-amdhsa"
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
define amdgpu_kernel void @kernel(ptr addrspace(1) noundef %p0, ptr addrspace(1) noundef %p1, i64 noundef %s0, i64 noundef %s1) #0 {
entry:
  %v1 = insertelement <4 x i64> poison, i64 %s0, i64 0
  %v2 = shufflevector <4 x i64> %v1, <4 x i64> poison, <4 x i32> zeroinitializer
  %v3 = add <4 x i64> %v2, <i64 0, i64 1, i64 2, i64 3>
  %v4 = insertelement <4 x i64> poison, i64 %s1, i64 0
  %v5 = shufflevector <4 x i64> %v4, <4 x i64> poison, <4 x i32> zeroinitializer
  %v6 = icmp slt <4 x i64> %v3, %v5
  %v7 = extractelement <4 x i1> %v6, i64 0
  %v8 = select i1 %v7, i64 %s0, i64 0
  %v9 = getelementptr float, ptr addrspace(1) %p0, i64 %v8
  %v10 = load float, ptr addrspace(1) %v9, align 4
  %v11 = insertelement <4 x float> poison, float %v10, i64 0
  %v12 = extractelement <4 x i1> %v6, i64 1
  %v13 = add nsw i64 %s0, 1
  %v14 = select i1 %v12, i64 %v13, i64 0
  %v15 = getelementptr float, ptr addrspace(1) %p0, i64 %v14
  %v16 = load float, ptr addrspace(1) %v15, align 4
  %v17 = insertelement <4 x float> %v11, float %v16, i64 1
  %v18 = extractelement <4 x i1> %v6, i64 2
  %v19 = add nsw i64 %s0, 2
  %v20 = select i1 %v18, i64 %v19, i64 0
  %v21 = getelementptr float, ptr addrspace(1) %p0, i64 %v20
  %v22 = load float, ptr addrspace(1) %v21, align 4
  %v23 = insertelement <4 x float> %v17, float %v22, i64 2
  %v24 = extractelement <4 x i1> %v6, i64 3
  %v25 = add nsw i64 %s0, 3
  %v26 = select i1 %v24, i64 %v25, i64 0
  %v27 = getelementptr float, ptr addrspace(1) %p0, i64 %v26
  %v28 = load float, ptr addrspace(1) %v27, align 4
  %v29 = insertelement <4 x float> %v23, float %v28, i64 3
  %v30 = select <4 x i1> %v6, <4 x float> %v29, <4 x float> splat (float 0x0000000000000000)
  %v31 = getelementptr float, ptr addrspace(1) %p1, i64 %s0
  call void @llvm.masked.store.v4f32.p1(<4 x float> %v30, ptr addrspace(1) %v31, i32 4, <4 x i1> %v6)
  ret void
}
declare void @llvm.masked.store.v4f32.p1(<4 x float>, ptr addrspace(1), i32 immarg, <4 x i1>)
attributes #0 = { nounwind "no-builtins" "target-cpu"="gfx1100" "target-features"="+wavefrontsize32" "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-hostcall-ptr" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" "amdgpu-no-workgroup-id-x" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-x" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" }

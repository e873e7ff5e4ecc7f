target triple = "amdgcn-amd-amdhsa"
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
define amdgpu_kernel void @kernel(ptr addrspace(1) noundef %p0, ptr addrspace(1) noundef %p1, ptr addrspace(1) noundef %p2, ptr addrspace(1) noundef %p3) #0 {
entry:
  %v1 = load <4 x float>, ptr addrspace(1) %p0, align 16
  %v2 = getelementptr float, ptr addrspace(1) %p1, i64 5
  %v3 = load float, ptr addrspace(1) %v2, align 4
  %v4 = insertelement <4 x float> poison, float %v3, i64 0
  %v5 = shufflevector <4 x float> %v4, <4 x float> poison, <4 x i32> zeroinitializer
  %v6 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v1, <4 x float> %v5, <4 x float> splat (float 0x3FE0000000000000))
  %v7 = fcmp olt <4 x float> %v1, %v6
  %v8 = call <4 x float> @llvm.maximum.v4f32(<4 x float> %v6, <4 x float> %v1)
  %v9 = fcmp ugt <4 x float> %v1, splat (float 0x0000000000000000)
  %v10 = select <4 x i1> %v9, <4 x float> %v1, <4 x float> splat (float 0x0000000000000000)
  %v11 = select <4 x i1> %v7, <4 x float> %v8, <4 x float> %v10
  %v12 = fadd <4 x float> %v11, %v5
  store <4 x float> %v12, ptr addrspace(1) %p2, align 4
  %v13 = call <4 x i32> @llvm.fptosi.sat.v4i32.v4f32(<4 x float> %v11)
  %v14 = sdiv <4 x i32> %v13, splat (i32 3)
  %v15 = shl <4 x i32> %v14, splat (i32 2)
  store <4 x i32> %v15, ptr addrspace(1) %p3, align 4
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="gfx1100" "target-features"="+wavefrontsize32" "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-hostcall-ptr" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" "amdgpu-no-workgroup-id-x" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-x" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" }

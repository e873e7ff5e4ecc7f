target triple = "amdgcn-amd-amdhsa"
@near0 = internal addrspace(3) global [64 x float] poison, align 64
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
define amdgpu_kernel void @kernel(ptr addrspace(1) noundef %p0, ptr addrspace(1) noundef %p1) #0 {
entry:
  %v1 = call i32 @llvm.amdgcn.workgroup.id.x()
  %v2 = call i32 @llvm.amdgcn.workitem.id.x()
  %v3 = mul nsw i32 %v1, 64
  %v4 = add nsw i32 %v3, %v2
  %v5 = zext nneg i32 %v4 to i64
  %v6 = getelementptr float, ptr addrspace(1) %p0, i64 %v5
  %v7 = load float, ptr addrspace(1) %v6, align 4
  %v8 = zext nneg i32 %v2 to i64
  %v9 = getelementptr float, ptr addrspace(3) @near0, i64 %v8
  store float %v7, ptr addrspace(3) %v9, align 4
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  br label %loop10
loop10:
  %i11 = phi i32 [ 0, %entry ], [ %v17, %loop10 ]
  %r12 = phi float [ 0x0000000000000000, %entry ], [ %v16, %loop10 ]
  %v13 = zext nneg i32 %i11 to i64
  %v14 = getelementptr float, ptr addrspace(3) @near0, i64 %v13
  %v15 = load float, ptr addrspace(3) %v14, align 4
  %v16 = fadd float %r12, %v15
  %v17 = add nsw i32 %i11, 1
  %v18 = icmp slt i32 %v17, 64
  br i1 %v18, label %loop10, label %loop10.end
loop10.end:
  %v19 = icmp eq i32 %v2, 0
  %v20 = zext nneg i32 %v1 to i64
  %v21 = getelementptr float, ptr addrspace(1) %p1, i64 %v20
  br i1 %v19, label %on22, label %off23
on22:
  store float %v16, ptr addrspace(1) %v21, align 4
  br label %off23
off23:
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="gfx1100" "target-features"="+wavefrontsize32" "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-hostcall-ptr" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" }

target triple = "x86_64-unknown-linux-gnu"
define void @kernel(ptr noalias %buf, ptr noalias %scalar, i64 %begin, i64 %end) #0 {
entry:
  %v1 = load ptr, ptr %buf, align 8
  %v2 = getelementptr ptr, ptr %buf, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = getelementptr ptr, ptr %buf, i64 2
  %v5 = load ptr, ptr %v4, align 8
  %v6 = getelementptr ptr, ptr %buf, i64 3
  %v7 = load ptr, ptr %v6, align 8
  %v8 = load <4 x float>, ptr %v1, align 16
  %v9 = getelementptr float, ptr %v3, i64 5
  %v10 = load float, ptr %v9, align 4
  %v11 = insertelement <4 x float> poison, float %v10, i64 0
  %v12 = shufflevector <4 x float> %v11, <4 x float> poison, <4 x i32> zeroinitializer
  %v13 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v8, <4 x float> %v12, <4 x float> splat (float 0x3FE0000000000000))
  %v14 = fcmp olt <4 x float> %v8, %v13
  %v15 = call <4 x float> @llvm.maximum.v4f32(<4 x float> %v13, <4 x float> %v8)
  %v16 = fcmp ugt <4 x float> %v8, splat (float 0x0000000000000000)
  %v17 = select <4 x i1> %v16, <4 x float> %v8, <4 x float> splat (float 0x0000000000000000)
  %v18 = select <4 x i1> %v14, <4 x float> %v15, <4 x float> %v17
  %v19 = fadd <4 x float> %v18, %v12
  store <4 x float> %v19, ptr %v5, align 4
  %v20 = call <4 x i32> @llvm.fptosi.sat.v4i32.v4f32(<4 x float> %v18)
  %v21 = sdiv <4 x i32> %v20, splat (i32 3)
  %v22 = shl <4 x i32> %v21, splat (i32 2)
  store <4 x i32> %v22, ptr %v7, align 4
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64" "target-features"="-amx-bf16,-amx-int8,-amx-tile,+avx,+avx2,-avx512bf16,-avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,-avx512fp16,-avx512ifma,-avx512vbmi,-avx512vbmi2,+avx512vl,-avx512vnni,-avx512vpopcntdq,-avxvnni,+bmi,+bmi2,+f16c,+fma,-gfni,+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3" "prefer-vector-width"="512" "min-legal-vector-width"="512" }

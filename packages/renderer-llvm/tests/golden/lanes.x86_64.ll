target triple = "x86_64-unknown-linux-gnu"
define void @kernel(ptr noalias %buf, ptr noalias %scalar, i64 %begin, i64 %end) #0 {
entry:
  %v1 = load ptr, ptr %buf, align 8
  %v2 = getelementptr ptr, ptr %buf, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = load <4 x float>, ptr %v1, align 4
  %v5 = getelementptr float, ptr %v1, i64 4
  %v6 = load <4 x float>, ptr %v5, align 4
  %v7 = shufflevector <4 x float> %v4, <4 x float> %v6, <4 x i32> <i32 0, i32 2, i32 4, i32 6>
  %v8 = extractelement <4 x float> %v4, i64 3
  %v9 = extractelement <4 x float> %v6, i64 0
  %v10 = insertelement <4 x float> <float poison, float 0x3FF0000000000000, float poison, float 0x4000000000000000>, float %v8, i64 0
  %v11 = insertelement <4 x float> %v10, float %v9, i64 2
  %v12 = fadd <4 x float> %v7, %v11
  store <4 x float> %v12, ptr %v3, align 4
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64" "target-features"="-amx-bf16,-amx-int8,-amx-tile,+avx,+avx2,-avx512bf16,-avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,-avx512fp16,-avx512ifma,-avx512vbmi,-avx512vbmi2,+avx512vl,-avx512vnni,-avx512vpopcntdq,-avxvnni,+bmi,+bmi2,+f16c,+fma,-gfni,+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3" "prefer-vector-width"="512" "min-legal-vector-width"="512" }

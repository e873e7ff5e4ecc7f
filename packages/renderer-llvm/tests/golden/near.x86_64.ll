target triple = "x86_64-unknown-linux-gnu"
define void @kernel(ptr noalias %buf, ptr noalias %scalar, i64 %begin, i64 %end) #0 {
entry:
  %v1 = load ptr, ptr %buf, align 8
  %v2 = alloca [16 x float], align 64
  %v3 = getelementptr ptr, ptr %buf, i64 1
  %v4 = load ptr, ptr %v3, align 8
  %v5 = load float, ptr %v1, align 4
  %v6 = getelementptr float, ptr %v2, i64 2
  store float %v5, ptr %v6, align 4
  %v7 = load float, ptr %v6, align 4
  store float %v7, ptr %v4, align 4
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64" "target-features"="-amx-bf16,-amx-int8,-amx-tile,+avx,+avx2,-avx512bf16,-avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,-avx512fp16,-avx512ifma,-avx512vbmi,-avx512vbmi2,+avx512vl,-avx512vnni,-avx512vpopcntdq,-avxvnni,+bmi,+bmi2,+f16c,+fma,-gfni,+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3" "prefer-vector-width"="512" "min-legal-vector-width"="512" }

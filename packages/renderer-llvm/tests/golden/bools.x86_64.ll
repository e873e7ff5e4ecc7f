target triple = "x86_64-unknown-linux-gnu"
define void @kernel(ptr noalias %buf, ptr noalias %scalar, i64 %begin, i64 %end) #0 {
entry:
  %v1 = load ptr, ptr %buf, align 8
  %v2 = getelementptr ptr, ptr %buf, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = load <8 x i8>, ptr %v1, align 1
  %v5 = icmp ne <8 x i8> %v4, zeroinitializer
  %v6 = xor <8 x i1> %v5, splat (i1 true)
  %v7 = zext <8 x i1> %v6 to <8 x i8>
  store <8 x i8> %v7, ptr %v3, align 1
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64" "target-features"="-amx-bf16,-amx-int8,-amx-tile,+avx,+avx2,-avx512bf16,-avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,-avx512fp16,-avx512ifma,-avx512vbmi,-avx512vbmi2,+avx512vl,-avx512vnni,-avx512vpopcntdq,-avxvnni,+bmi,+bmi2,+f16c,+fma,-gfni,+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3" "prefer-vector-width"="512" "min-legal-vector-width"="512" }

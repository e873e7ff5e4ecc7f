target triple = "x86_64-unknown-linux-gnu"
define void @kernel(ptr noalias %buf, ptr noalias %scalar, i64 %begin, i64 %end) #0 {
entry:
  %v1 = getelementptr ptr, ptr %buf, i64 1
  %v2 = load ptr, ptr %v1, align 8
  %v3 = getelementptr i64, ptr %scalar, i64 1
  %v4 = load i64, ptr %v3, align 8
  %v5 = load ptr, ptr %buf, align 8
  %v6 = load i64, ptr %scalar, align 8
  %v7 = getelementptr ptr, ptr %buf, i64 2
  %v8 = load ptr, ptr %v7, align 8
  %v9 = getelementptr i64, ptr %v2, i64 %v4
  store i64 7, ptr %v9, align 8
  %v10 = trunc i64 %v6 to i32
  store i32 %v10, ptr %v5, align 4
  %v11 = getelementptr float, ptr %v8, i64 1
  store float 0x8000000000000000, ptr %v11, align 4
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64" "target-features"="-amx-bf16,-amx-int8,-amx-tile,+avx,+avx2,-avx512bf16,-avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,-avx512fp16,-avx512ifma,-avx512vbmi,-avx512vbmi2,+avx512vl,-avx512vnni,-avx512vpopcntdq,-avxvnni,+bmi,+bmi2,+f16c,+fma,-gfni,+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3" "prefer-vector-width"="512" "min-legal-vector-width"="512" }

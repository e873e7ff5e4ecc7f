target triple = "x86_64-unknown-linux-gnu"
define void @kernel(ptr noalias %buf, ptr noalias %scalar, i64 %begin, i64 %end) #0 {
entry:
  %v1 = load ptr, ptr %buf, align 8
  %v2 = getelementptr ptr, ptr %buf, i64 1
  %v3 = load ptr, ptr %v2, align 8
  br label %loop4
loop4:
  %i5 = phi i64 [ 0, %entry ], [ %v16, %loop4 ]
  %v6 = mul nsw i64 %i5, 4
  %v7 = getelementptr float, ptr %v1, i64 %v6
  %v8 = load <4 x float>, ptr %v7, align 16
  %v9 = getelementptr float, ptr %v7, i64 64
  %v10 = load <4 x float>, ptr %v9, align 16
  %v11 = getelementptr float, ptr %v7, i64 128
  %v12 = load <4 x float>, ptr %v11, align 16
  %v13 = fadd <4 x float> %v8, %v10
  %v14 = fadd <4 x float> %v13, %v12
  %v15 = getelementptr float, ptr %v3, i64 %v6
  store <4 x float> %v14, ptr %v15, align 4
  %v16 = add nsw i64 %i5, 1
  %v17 = icmp slt i64 %v16, 16
  br i1 %v17, label %loop4, label %loop4.end
loop4.end:
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64" "target-features"="-amx-bf16,-amx-int8,-amx-tile,+avx,+avx2,-avx512bf16,-avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,-avx512fp16,-avx512ifma,-avx512vbmi,-avx512vbmi2,+avx512vl,-avx512vnni,-avx512vpopcntdq,-avxvnni,+bmi,+bmi2,+f16c,+fma,-gfni,+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3" "prefer-vector-width"="512" "min-legal-vector-width"="512" }

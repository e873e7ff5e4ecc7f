target triple = "x86_64-unknown-linux-gnu"
define void @kernel(ptr noalias %buf, ptr noalias %scalar, i64 %begin, i64 %end) #0 {
entry:
  %v1 = load ptr, ptr %buf, align 8
  %v3 = icmp slt i64 %begin, %end
  br i1 %v3, label %head4, label %loop2.end
head4:
  br label %loop2
loop2:
  %i5 = phi i64 [ %begin, %head4 ], [ %v15, %loop6.end ]
  br label %loop6
loop6:
  %i7 = phi i64 [ 0, %loop2 ], [ %v13, %loop6 ]
  %v8 = mul nsw i64 %i5, 3
  %v9 = add nsw i64 %v8, %i7
  %v10 = mul nsw i64 %i5, %i7
  %v11 = getelementptr i32, ptr %v1, i64 %v9
  %v12 = trunc i64 %v10 to i32
  store i32 %v12, ptr %v11, align 4
  %v13 = add nsw i64 %i7, 1
  %v14 = icmp slt i64 %v13, 3
  br i1 %v14, label %loop6, label %loop6.end
loop6.end:
  %v15 = add nsw i64 %i5, 1
  %v16 = icmp slt i64 %v15, %end
  br i1 %v16, label %loop2, label %loop2.end
loop2.end:
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64" "target-features"="-amx-bf16,-amx-int8,-amx-tile,+avx,+avx2,-avx512bf16,-avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,-avx512fp16,-avx512ifma,-avx512vbmi,-avx512vbmi2,+avx512vl,-avx512vnni,-avx512vpopcntdq,-avxvnni,+bmi,+bmi2,+f16c,+fma,-gfni,+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3" "prefer-vector-width"="512" "min-legal-vector-width"="512" }

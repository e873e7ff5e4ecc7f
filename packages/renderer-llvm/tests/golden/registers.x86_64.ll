target triple = "x86_64-unknown-linux-gnu"
define void @kernel(ptr noalias %buf, ptr noalias %scalar, i64 %begin, i64 %end) #0 {
entry:
  %v1 = load ptr, ptr %buf, align 8
  %v2 = load i64, ptr %scalar, align 8
  %v3 = getelementptr ptr, ptr %buf, i64 1
  %v4 = load ptr, ptr %v3, align 8
  br label %loop5
loop5:
  %i6 = phi i64 [ 0, %entry ], [ %v15, %loop5 ]
  %r7 = phi <4 x float> [ splat (float 0x0000000000000000), %entry ], [ %v12, %loop5 ]
  %r8 = phi <4 x float> [ splat (float 0x0000000000000000), %entry ], [ %v14, %loop5 ]
  %v9 = mul nsw i64 %i6, 4
  %v10 = getelementptr float, ptr %v1, i64 %v9
  %v11 = load <4 x float>, ptr %v10, align 4
  %v12 = fadd <4 x float> %r7, %v11
  %v13 = fmul <4 x float> %v11, %v11
  %v14 = fadd <4 x float> %r8, %v13
  %v15 = add nsw i64 %i6, 1
  %v16 = icmp slt i64 %v15, 8
  br i1 %v16, label %loop5, label %loop5.end
loop5.end:
  %v18 = icmp slt i64 0, %v2
  br i1 %v18, label %head19, label %loop17.end
head19:
  br label %loop17
loop17:
  %i20 = phi i64 [ 0, %head19 ], [ %v26, %loop17 ]
  %r21 = phi <4 x float> [ %v12, %head19 ], [ %v25, %loop17 ]
  %v22 = mul nsw i64 %i20, 4
  %v23 = getelementptr float, ptr %v1, i64 %v22
  %v24 = load <4 x float>, ptr %v23, align 4
  %v25 = fsub <4 x float> %r21, %v24
  %v26 = add nsw i64 %i20, 1
  %v27 = icmp slt i64 %v26, %v2
  br i1 %v27, label %loop17, label %loop17.end
loop17.end:
  %v28 = phi <4 x float> [ %v12, %loop5.end ], [ %v25, %loop17 ]
  %v29 = fadd <4 x float> %v28, %v14
  store <4 x float> %v29, ptr %v4, align 4
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64" "target-features"="-amx-bf16,-amx-int8,-amx-tile,+avx,+avx2,-avx512bf16,-avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,-avx512fp16,-avx512ifma,-avx512vbmi,-avx512vbmi2,+avx512vl,-avx512vnni,-avx512vpopcntdq,-avxvnni,+bmi,+bmi2,+f16c,+fma,-gfni,+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3" "prefer-vector-width"="512" "min-legal-vector-width"="512" }

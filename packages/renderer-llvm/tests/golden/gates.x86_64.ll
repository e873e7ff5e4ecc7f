target triple = "x86_64-unknown-linux-gnu"
@c0 = private unnamed_addr constant float 0x3FF0000000000000, align 64
@c1 = private unnamed_addr constant <4 x float> splat (float 0x0000000000000000), align 64
define void @kernel(ptr noalias %buf, ptr noalias %scalar, i64 %begin, i64 %end) #0 {
entry:
  %v1 = load i64, ptr %scalar, align 8
  %v2 = load ptr, ptr %buf, align 8
  %v3 = getelementptr ptr, ptr %buf, i64 1
  %v4 = load ptr, ptr %v3, align 8
  %v5 = icmp slt i64 %v1, 64
  %v6 = getelementptr float, ptr %v2, i64 %v1
  %v7 = select i1 %v5, ptr %v6, ptr @c0
  %v8 = load float, ptr %v7, align 4
  %v9 = load <4 x float>, ptr %v2, align 4
  %v10 = insertelement <4 x i1> poison, i1 %v5, i64 0
  %v11 = shufflevector <4 x i1> %v10, <4 x i1> poison, <4 x i32> zeroinitializer
  %v12 = select i1 %v5, ptr %v6, ptr @c1
  %v13 = load <4 x float>, ptr %v12, align 4
  %v14 = select i1 %v5, <4 x float> %v13, <4 x float> %v9
  %v15 = insertelement <4 x float> poison, float %v8, i64 0
  %v16 = shufflevector <4 x float> %v15, <4 x float> poison, <4 x i32> zeroinitializer
  %v17 = fadd <4 x float> %v14, %v16
  %v18 = getelementptr float, ptr %v4, i64 %v1
  br i1 %v5, label %on19, label %off20
on19:
  store <4 x float> %v17, ptr %v18, align 4
  br label %off20
off20:
  ret void
}
attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64" "target-features"="-amx-bf16,-amx-int8,-amx-tile,+avx,+avx2,-avx512bf16,-avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,-avx512fp16,-avx512ifma,-avx512vbmi,-avx512vbmi2,+avx512vl,-avx512vnni,-avx512vpopcntdq,-avxvnni,+bmi,+bmi2,+f16c,+fma,-gfni,+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3" "prefer-vector-width"="512" "min-legal-vector-width"="512" }

target triple = "x86_64-unknown-linux-gnu"
define void @kernel(ptr noalias %buf, ptr noalias %scalar, i64 %begin, i64 %end) #0 {
entry:
  %v1 = load ptr, ptr %buf, align 8
  %v2 = load i64, ptr %scalar, align 8
  %v3 = getelementptr i64, ptr %scalar, i64 1
  %v4 = load i64, ptr %v3, align 8
  %v5 = getelementptr ptr, ptr %buf, i64 1
  %v6 = load ptr, ptr %v5, align 8
  %v7 = insertelement <4 x i64> poison, i64 %v2, i64 0
  %v8 = shufflevector <4 x i64> %v7, <4 x i64> poison, <4 x i32> zeroinitializer
  %v9 = add <4 x i64> %v8, <i64 0, i64 1, i64 2, i64 3>
  %v10 = insertelement <4 x i64> poison, i64 %v4, i64 0
  %v11 = shufflevector <4 x i64> %v10, <4 x i64> poison, <4 x i32> zeroinitializer
  %v12 = icmp slt <4 x i64> %v9, %v11
  %v13 = getelementptr float, ptr %v1, i64 %v2
  %v14 = call <4 x float> @llvm.masked.load.v4f32.p0(ptr %v13, i32 4, <4 x i1> %v12, <4 x float> splat (float 0x0000000000000000))
  %v15 = getelementptr float, ptr %v6, i64 %v2
  call void @llvm.masked.store.v4f32.p0(<4 x float> %v14, ptr %v15, i32 4, <4 x i1> %v12)
  ret void
}
declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, i32 immarg, <4 x i1>, <4 x float>)
declare void @llvm.masked.store.v4f32.p0(<4 x float>, ptr, i32 immarg, <4 x i1>)
attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64" "target-features"="-amx-bf16,-amx-int8,-amx-tile,+avx,+avx2,-avx512bf16,-avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,-avx512fp16,-avx512ifma,-avx512vbmi,-avx512vbmi2,+avx512vl,-avx512vnni,-avx512vpopcntdq,-avxvnni,+bmi,+bmi2,+f16c,+fma,-gfni,+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3" "prefer-vector-width"="512" "min-legal-vector-width"="512" }

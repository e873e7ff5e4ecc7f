"""LLVM renderer of tiny: `plugin` declares it, `renderer` writes LLVM IR, `compiler` makes objects of it."""

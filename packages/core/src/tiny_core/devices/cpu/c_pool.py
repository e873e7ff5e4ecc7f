"""The worker pool as C, for the C renderer's compiler. `pool.py` has the interface and the protocol."""

from __future__ import annotations

from tiny_core.devices.cpu import pool as p

_WORDS = (
    "EPOCH", "DONE", "SLEEPING", "WAITING", "STOP",
    "THREADS", "SPIN_NS", "SLICE_NS", "SYSCALL", "FUTEX", "CLOCK", "ACTIVE",
    "FUNCTION", "BUFFERS", "SCALARS", "PARALLEL", "CHUNKS", "CLAIMS",
    "RECORDS", "COUNT", "FIXUPS", "FIXUP_COUNT", "WORDS", "TABLE", "POSITION", "COPY_CHUNK",
)  # fmt: skip

_BODY = r"""
typedef __INT64_TYPE__ i64;
typedef __UINT64_TYPE__ u64;
typedef __UINT32_TYPE__ u32;
typedef void kernel(void **buf, const i64 *scalar, i64 begin, i64 end);
#define EXPORT __attribute__((visibility("default")))
#define LOAD(word, order) __atomic_load_n(&(word), __ATOMIC_##order)
#define STORE(word, value, order) __atomic_store_n(&(word), value, __ATOMIC_##order)
#define SWAP(word, seen, value) \
  __atomic_compare_exchange_n(word, seen, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

#if defined(__x86_64__)
static inline void relax(void) { __builtin_ia32_pause(); }
static inline u64 get_mode(void) { return __builtin_ia32_stmxcsr(); }
static inline void set_mode(u64 mode) { __builtin_ia32_ldmxcsr((u32)mode); }
/* Intel SDM vol. 1, section 10.2.3: all exceptions masked, round to nearest, subnormals kept */
#define DEFAULT_MODE 0x1f80
#elif defined(__aarch64__)
static inline void relax(void) { __asm__ volatile("yield"); }
static inline u64 get_mode(void) { u64 mode; __asm__ volatile("mrs %0, fpcr" : "=r"(mode)); return mode; }
static inline void set_mode(u64 mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
#define DEFAULT_MODE 0
#endif

static i64 now(i64 *pool) {
  i64 t[2];
  ((int (*)(int, i64 *))pool[CLOCK])(1 /* CLOCK_MONOTONIC */, t);
  return t[0] * 1000000000 + t[1];
}

static void sleep_on(i64 *pool, i64 word, u32 seen, i64 nanoseconds) {
  i64 t[2] = {nanoseconds / 1000000000, nanoseconds % 1000000000};
  ((long (*)(long, ...))pool[SYSCALL])(pool[FUTEX], &pool[word], 128L /* FUTEX_WAIT_PRIVATE */, (long)seen,
                                       nanoseconds < 0 ? 0 : t, (void *)0, 0L);
}

static void wake(i64 *pool, i64 word, i64 count) {
  ((long (*)(long, ...))pool[SYSCALL])(pool[FUTEX], &pool[word], 129L /* FUTEX_WAKE_PRIVATE */, count, (void
  *)0,
                                       (void *)0, 0L);
}

/* Run chunks until none is left (1) or the deadline, unless 0, has passed (0). */
static i64 work(i64 *pool, i64 self, u64 epoch, i64 deadline) {
  i64 threads = pool[THREADS];
  for (i64 step = 0; step < threads; step++) {
    i64 victim = self + step < threads ? self + step : self + step - threads;
    u64 *claim = (u64 *)&pool[CLAIMS + 8 * victim];
    u64 word = LOAD(*claim, ACQUIRE);
    while (word >> 32 == epoch && (word & 0xffff) < (word >> 16 & 0xffff)) {
      if (!SWAP(claim, &word, word + 1)) continue;
      i64 chunk = word & 0xffff, chunks = pool[CHUNKS], parallel = pool[PARALLEL];
      ((kernel *)pool[FUNCTION])((void **)pool[BUFFERS], (const i64 *)pool[SCALARS], parallel * chunk /
      chunks,
                                 parallel * (chunk + 1) / chunks);
      if (__atomic_add_fetch(&pool[DONE], 1, __ATOMIC_SEQ_CST) == chunks && LOAD(pool[WAITING], SEQ_CST))
        wake(pool, DONE, 1);
      if (deadline && now(pool) > deadline) return 0;
      word = LOAD(*claim, ACQUIRE);
    }
  }
  return 1;
}

/* Wait until all chunks are done (1) or the deadline has passed (0). */
static i64 wait(i64 *pool, i64 deadline) {
  i64 chunks = pool[CHUNKS], start = now(pool), result = 1;
  for (i64 spin = 1; LOAD(pool[DONE], ACQUIRE) != chunks; spin++) {
    relax();
    if (spin & 63) continue;
    i64 time = now(pool);
    if (time > deadline) return 0;
    if (time - start > pool[SPIN_NS]) break;
  }
  while (result) {
    STORE(pool[WAITING], 1, SEQ_CST);
    i64 done = LOAD(pool[DONE], SEQ_CST), left = deadline - now(pool);
    if (done == chunks) break;
    if (left <= 0) result = 0;
    else sleep_on(pool, DONE, (u32)done, left);
  }
  STORE(pool[WAITING], 0, SEQ_CST);
  return result;
}

static void publish(i64 *pool, i64 *record) {
  i64 threads = pool[THREADS], chunks = record[4];
  u64 epoch = (u32)(pool[EPOCH] + 1);
  for (i64 k = 0; k < 5; k++) pool[FUNCTION + k] = record[k];
  STORE(pool[DONE], 0, RELAXED);
  for (i64 t = 0; t < threads; t++) {
    u64 run = chunks * (t + 1) / threads << 16 | chunks * t / threads;
    STORE(pool[CLAIMS + 8 * t], epoch << 32 | run, RELEASE);
  }
  STORE(pool[EPOCH], epoch, SEQ_CST);
  if (LOAD(pool[SLEEPING], SEQ_CST)) wake(pool, EPOCH, (chunks < threads ? chunks : threads) - 1);
  pool[ACTIVE] = 1;
}

EXPORT i64 tiny_pool_run(i64 *pool, i64 *batch) {
  u64 mode = get_mode();
  set_mode(DEFAULT_MODE);
  i64 deadline = now(pool) + pool[SLICE_NS], count = batch[COUNT], position = batch[POSITION], result = 1;
  if (position == 0 && !pool[ACTIVE]) {
    i64 *words = (i64 *)batch[WORDS], *table = (i64 *)batch[TABLE], *fix = (i64 *)batch[FIXUPS];
    for (i64 *end = fix + 3 * batch[FIXUP_COUNT]; fix < end; fix += 3) words[fix[0]] = table[fix[1]] + fix[2];
  }
  while (position < count) {
    i64 *record = (i64 *)batch[RECORDS] + 5 * position;
    if (record[4] <= 1) {
      ((kernel *)record[0])((void **)record[1], (const i64 *)record[2], 0, record[3]);
    } else {
      if (!pool[ACTIVE]) publish(pool, record);
      if (!work(pool, 0, (u32)pool[EPOCH], deadline) || !wait(pool, deadline)) {
        result = 0;
        break;
      }
      pool[ACTIVE] = 0;
    }
    position++;
    if (position < count && now(pool) > deadline) {
      result = 0;
      break;
    }
  }
  batch[POSITION] = result ? 0 : position;
  set_mode(mode);
  return result;
}

EXPORT i64 tiny_pool_cancel(i64 *pool) {
  if (!pool[ACTIVE]) return 1;
  for (i64 t = 0; t < pool[THREADS]; t++) {
    u64 *claim = (u64 *)&pool[CLAIMS + 8 * t];
    u64 word = LOAD(*claim, ACQUIRE), end;
    do end = word >> 16 & 0xffff;
    while (!SWAP(claim, &word, (word & ~(u64)0xffff) | end));
    __atomic_add_fetch(&pool[DONE], end - (word & 0xffff), __ATOMIC_SEQ_CST);
  }
  if (!wait(pool, now(pool) + pool[SLICE_NS])) return 0;
  pool[ACTIVE] = 0;
  return 1;
}

EXPORT void *tiny_pool_worker(i64 *argument) {
  i64 *pool = (i64 *)argument[0], self = argument[1], start = now(pool);
  u64 seen = 0;
  set_mode(DEFAULT_MODE);
  for (i64 spin = 1;; spin++) {
    u64 epoch = LOAD(pool[EPOCH], SEQ_CST);
    if (epoch != seen) {
      if (LOAD(pool[STOP], ACQUIRE)) return 0;
      seen = epoch;
      work(pool, self, epoch, 0);
      start = now(pool);
      continue;
    }
    relax();
    if (spin & 63 || now(pool) - start <= pool[SPIN_NS]) continue;
    __atomic_add_fetch(&pool[SLEEPING], 1, __ATOMIC_SEQ_CST);
    if (LOAD(pool[EPOCH], SEQ_CST) == seen) sleep_on(pool, EPOCH, (u32)seen, -1);
    __atomic_sub_fetch(&pool[SLEEPING], 1, __ATOMIC_SEQ_CST);
    start = now(pool);
  }
}

typedef i64 wide __attribute__((vector_size(16), aligned(1), may_alias));

EXPORT void tiny_pool_copy(void **buf, const i64 *scalar, i64 begin, i64 end) {
  char *dest = buf[0], *source = buf[1];
  i64 at = begin * COPY_CHUNK, stop = end * COPY_CHUNK < scalar[0] ? end * COPY_CHUNK : scalar[0];
  for (; at + 64 <= stop; at += 64) {
    wide a = *(wide *)(source + at), b = *(wide *)(source + at + 16);
    wide c = *(wide *)(source + at + 32), d = *(wide *)(source + at + 48);
    *(wide *)(dest + at) = a;
    *(wide *)(dest + at + 16) = b;
    *(wide *)(dest + at + 32) = c;
    *(wide *)(dest + at + 48) = d;
  }
  for (; at < stop; at++) dest[at] = source[at];
}

EXPORT void tiny_pool_stamp(void **buf, const i64 *scalar, i64 begin, i64 end) {
  i64 t[2];
  ((int (*)(int, i64 *))scalar[0])(1 /* CLOCK_MONOTONIC */, t);
  *(i64 *)buf[0] = t[0] * 1000000000 + t[1];
}
"""

POOL_C = "\n".join(f"#define {word} {getattr(p, word)}" for word in _WORDS) + "\n" + _BODY

"""The worker pool as LLVM IR. Interface and protocol are written down in `tiny_core/devices/cpu/pool.py`;
here, too, a structure is an array of 64-bit words. The text differs between targets in how a thread pauses
and sets its floating-point mode only.
"""

from __future__ import annotations

from string import Template
from typing import Final

# positions of words, as the interface has them
_WORDS: Final = {
    "EPOCH": 0, "DONE": 8, "SLEEPING": 16, "WAITING": 24, "STOP": 32,
    "THREADS": 40, "SPIN_NS": 41, "SLICE_NS": 42, "SYSCALL": 43, "FUTEX": 44, "CLOCK": 45, "ACTIVE": 46,
    "FUNCTION": 48, "BUFFERS": 49, "SCALARS": 50, "PARALLEL": 51, "CHUNKS": 52, "CLAIMS": 64,
    "RECORDS": 0, "COUNT": 1, "FIXUPS": 2, "FIXUP_COUNT": 3, "B_WORDS": 4, "TABLE": 5, "POSITION": 6,
    "COPY_SHIFT": 16,
}  # fmt: skip

# MXCSR's default masks all exceptions, rounds to nearest and keeps subnormal numbers (Intel SDM vol. 1,
# section 10.2.3); FPCR's is 0 (Arm ARM, FPCR).
_X86_64: Final = """
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal void @relax() #0 {
  call void @llvm.x86.sse2.pause()
  ret void
}

define internal i64 @get_mode() #0 {
  %slot = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %mode = load i32, ptr %slot, align 4
  %wide = zext i32 %mode to i64
  ret i64 %wide
}

define internal void @set_mode(i64 %mode) #0 {
  %slot = alloca i32, align 4
  %narrow = trunc i64 %mode to i32
  store i32 %narrow, ptr %slot, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  ret void
}
"""
_AARCH64: Final = """
declare void @llvm.aarch64.hint(i32)
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal void @relax() #0 {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}

define internal i64 @get_mode() #0 {
  %mode = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %mode
}

define internal void @set_mode(i64 %mode) #0 {
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}
"""

_BODY: Final = Template("""
define internal i64 @get(ptr %words, i64 %position) #0 {
  %at = getelementptr i64, ptr %words, i64 %position
  %value = load i64, ptr %at, align 8
  ret i64 %value
}

define internal void @set(ptr %words, i64 %position, i64 %value) #0 {
  %at = getelementptr i64, ptr %words, i64 %position
  store i64 %value, ptr %at, align 8
  ret void
}

; CLOCK_MONOTONIC (1) in nanoseconds, by clock_gettime at %clock
define internal i64 @read_clock(ptr %clock) #0 {
  %time = alloca [2 x i64], align 8
  %ignored = call i32 %clock(i32 1, ptr %time)
  %seconds = call i64 @get(ptr %time, i64 0)
  %rest = call i64 @get(ptr %time, i64 1)
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %rest
  ret i64 %sum
}

define internal i64 @now(ptr %pool) #0 {
  %at = getelementptr i64, ptr %pool, i64 $CLOCK
  %clock = load ptr, ptr %at, align 8
  %time = call i64 @read_clock(ptr %clock)
  ret i64 %time
}

; FUTEX_WAIT_PRIVATE (128) while the word's low half is %seen, for %ns nanoseconds, or without end if they are
; negative
define internal void @sleep_on(ptr %pool, i64 %position, i64 %seen, i64 %ns) #0 {
  %time = alloca [2 x i64], align 8
  %seconds = sdiv i64 %ns, 1000000000
  %rest = srem i64 %ns, 1000000000
  call void @set(ptr %time, i64 0, i64 %seconds)
  call void @set(ptr %time, i64 1, i64 %rest)
  %endless = icmp slt i64 %ns, 0
  %limit = select i1 %endless, ptr null, ptr %time
  %at = getelementptr i64, ptr %pool, i64 $SYSCALL
  %syscall = load ptr, ptr %at, align 8
  %futex = call i64 @get(ptr %pool, i64 $FUTEX)
  %word = getelementptr i64, ptr %pool, i64 %position
  %r = call i64 (i64, ...) %syscall(i64 %futex, ptr %word, i64 128, i64 %seen, ptr %limit, ptr null, i64 0)
  ret void
}

; FUTEX_WAKE_PRIVATE (129)
define internal void @wake(ptr %pool, i64 %position, i64 %count) #0 {
  %at = getelementptr i64, ptr %pool, i64 $SYSCALL
  %syscall = load ptr, ptr %at, align 8
  %futex = call i64 @get(ptr %pool, i64 $FUTEX)
  %word = getelementptr i64, ptr %pool, i64 %position
  %r = call i64 (i64, ...) %syscall(i64 %futex, ptr %word, i64 129, i64 %count, ptr null, ptr null, i64 0)
  ret void
}

define internal ptr @claim_of(ptr %pool, i64 %claimant) #0 {
  %offset = shl i64 %claimant, 3
  %position = add i64 %offset, $CLAIMS
  %claim = getelementptr i64, ptr %pool, i64 %position
  ret ptr %claim
}

; the beginning of chunk %chunk
define internal i64 @bound(ptr %pool, i64 %chunk) #0 {
  %parallel = call i64 @get(ptr %pool, i64 $PARALLEL)
  %chunks = call i64 @get(ptr %pool, i64 $CHUNKS)
  %product = mul i64 %parallel, %chunk
  %at = sdiv i64 %product, %chunks
  ret i64 %at
}

; run a claimed chunk and count it as done
define internal void @run_chunk(ptr %pool, i64 %chunk) #0 {
entry:
  %chunks = call i64 @get(ptr %pool, i64 $CHUNKS)
  %at = getelementptr i64, ptr %pool, i64 $FUNCTION
  %kernel = load ptr, ptr %at, align 8
  %buffers = call i64 @get(ptr %pool, i64 $BUFFERS)
  %scalars = call i64 @get(ptr %pool, i64 $SCALARS)
  %buf = inttoptr i64 %buffers to ptr
  %scalar = inttoptr i64 %scalars to ptr
  %begin = call i64 @bound(ptr %pool, i64 %chunk)
  %next = add i64 %chunk, 1
  %end = call i64 @bound(ptr %pool, i64 %next)
  call void %kernel(ptr %buf, ptr %scalar, i64 %begin, i64 %end)
  %done = getelementptr i64, ptr %pool, i64 $DONE
  %before = atomicrmw add ptr %done, i64 1 seq_cst, align 8
  %count = add i64 %before, 1
  %last = icmp eq i64 %count, %chunks
  br i1 %last, label %ask, label %out
ask:
  %note = getelementptr i64, ptr %pool, i64 $WAITING
  %waiting = load atomic i64, ptr %note seq_cst, align 8
  %asleep = icmp ne i64 %waiting, 0
  br i1 %asleep, label %rouse, label %out
rouse:
  call void @wake(ptr %pool, i64 $DONE, i64 1)
  br label %out
out:
  ret void
}

; run chunks until none is left (true) or the deadline, unless 0, has passed (false)
define internal i1 @work(ptr %pool, i64 %self, i64 %epoch, i64 %deadline) #0 {
entry:
  %threads = call i64 @get(ptr %pool, i64 $THREADS)
  %limited = icmp ne i64 %deadline, 0
  br label %visit
visit:
  %step = phi i64 [ 0, %entry ], [ %step.next, %leave ]
  %some = icmp slt i64 %step, %threads
  br i1 %some, label %look, label %none
look:
  %sum = add i64 %self, %step
  %beyond = icmp sge i64 %sum, %threads
  %wrapped = sub i64 %sum, %threads
  %victim = select i1 %beyond, i64 %wrapped, i64 %sum
  %claim = call ptr @claim_of(ptr %pool, i64 %victim)
  br label %read
read:
  %fresh = load atomic i64, ptr %claim acquire, align 8
  br label %judge
judge:
  %word = phi i64 [ %fresh, %read ], [ %seen, %take ]
  %its.epoch = lshr i64 %word, 32
  %current = icmp eq i64 %its.epoch, %epoch
  %chunk = and i64 %word, 65535
  %upper = lshr i64 %word, 16
  %end = and i64 %upper, 65535
  %left = icmp ult i64 %chunk, %end
  %go = and i1 %current, %left
  br i1 %go, label %take, label %leave
take:
  %taken = add i64 %word, 1
  %pair = cmpxchg ptr %claim, i64 %word, i64 %taken acq_rel acquire, align 8
  %seen = extractvalue { i64, i1 } %pair, 0
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %run, label %judge
run:
  call void @run_chunk(ptr %pool, i64 %chunk)
  br i1 %limited, label %check, label %read
check:
  %time = call i64 @now(ptr %pool)
  %late = icmp sgt i64 %time, %deadline
  br i1 %late, label %stop, label %read
leave:
  %step.next = add i64 %step, 1
  br label %visit
none:
  ret i1 true
stop:
  ret i1 false
}

; wait until all chunks are done (true) or the deadline has passed (false)
define internal i1 @wait(ptr %pool, i64 %deadline) #0 {
entry:
  %chunks = call i64 @get(ptr %pool, i64 $CHUNKS)
  %patience = call i64 @get(ptr %pool, i64 $SPIN_NS)
  %word = getelementptr i64, ptr %pool, i64 $DONE
  %note = getelementptr i64, ptr %pool, i64 $WAITING
  %start = call i64 @now(ptr %pool)
  br label %spin
spin:
  %round = phi i64 [ 1, %entry ], [ %round.next, %relaxed ], [ %round.next, %timed ]
  %round.next = add i64 %round, 1
  %done = load atomic i64, ptr %word acquire, align 8
  %all = icmp eq i64 %done, %chunks
  br i1 %all, label %yes, label %relaxed
relaxed:
  call void @relax()
  %low = and i64 %round, 63
  %unasked = icmp ne i64 %low, 0
  br i1 %unasked, label %spin, label %clock
clock:
  %time = call i64 @now(ptr %pool)
  %late = icmp sgt i64 %time, %deadline
  br i1 %late, label %no, label %timed
timed:
  %spent = sub i64 %time, %start
  %enough = icmp sgt i64 %spent, %patience
  br i1 %enough, label %doze, label %spin
doze:
  store atomic i64 1, ptr %note seq_cst, align 8
  %done.now = load atomic i64, ptr %word seq_cst, align 8
  %all.now = icmp eq i64 %done.now, %chunks
  br i1 %all.now, label %yes, label %budget
budget:
  %time.now = call i64 @now(ptr %pool)
  %remaining = sub i64 %deadline, %time.now
  %spent.up = icmp sle i64 %remaining, 0
  br i1 %spent.up, label %no, label %sleep
sleep:
  call void @sleep_on(ptr %pool, i64 $DONE, i64 %done.now, i64 %remaining)
  br label %doze
yes:
  store atomic i64 0, ptr %note seq_cst, align 8
  ret i1 true
no:
  store atomic i64 0, ptr %note seq_cst, align 8
  ret i1 false
}

; begin the kernel of a record: its words, the runs of all claimants, then the epoch that makes them valid
define internal void @publish(ptr %pool, ptr %record) #0 {
entry:
  %threads = call i64 @get(ptr %pool, i64 $THREADS)
  %chunks = call i64 @get(ptr %record, i64 4)
  %epoch.old = call i64 @get(ptr %pool, i64 $EPOCH)
  %epoch.next = add i64 %epoch.old, 1
  %epoch = and i64 %epoch.next, 4294967295
  %epoch.high = shl i64 %epoch, 32
  br label %copy
copy:
  %word = phi i64 [ 0, %entry ], [ %word.next, %copy ]
  %value = call i64 @get(ptr %record, i64 %word)
  %position = add i64 %word, $FUNCTION
  call void @set(ptr %pool, i64 %position, i64 %value)
  %word.next = add i64 %word, 1
  %copied = icmp eq i64 %word.next, 5
  br i1 %copied, label %begin, label %copy
begin:
  %done = getelementptr i64, ptr %pool, i64 $DONE
  store atomic i64 0, ptr %done monotonic, align 8
  br label %deal
deal:
  %t = phi i64 [ 0, %begin ], [ %t.next, %deal ]
  %t.next = add i64 %t, 1
  %first.product = mul i64 %chunks, %t
  %first = sdiv i64 %first.product, %threads
  %end.product = mul i64 %chunks, %t.next
  %end = sdiv i64 %end.product, %threads
  %end.high = shl i64 %end, 16
  %run = or i64 %end.high, %first
  %deal.word = or i64 %epoch.high, %run
  %claim = call ptr @claim_of(ptr %pool, i64 %t)
  store atomic i64 %deal.word, ptr %claim release, align 8
  %dealt = icmp eq i64 %t.next, %threads
  br i1 %dealt, label %announce, label %deal
announce:
  %epoch.at = getelementptr i64, ptr %pool, i64 $EPOCH
  store atomic i64 %epoch, ptr %epoch.at seq_cst, align 8
  call void @set(ptr %pool, i64 $ACTIVE, i64 1)
  %sleeping.at = getelementptr i64, ptr %pool, i64 $SLEEPING
  %sleeping = load atomic i64, ptr %sleeping.at seq_cst, align 8
  %asleep = icmp ne i64 %sleeping, 0
  br i1 %asleep, label %rouse, label %out
rouse:
  %fewer = icmp slt i64 %chunks, %threads
  %hands = select i1 %fewer, i64 %chunks, i64 %threads
  %helpers = sub i64 %hands, 1
  call void @wake(ptr %pool, i64 $EPOCH, i64 %helpers)
  br label %out
out:
  ret void
}

define internal void @fix(ptr %batch) #0 {
entry:
  %list.word = call i64 @get(ptr %batch, i64 $FIXUPS)
  %list = inttoptr i64 %list.word to ptr
  %count = call i64 @get(ptr %batch, i64 $FIXUP_COUNT)
  %words.word = call i64 @get(ptr %batch, i64 $B_WORDS)
  %words = inttoptr i64 %words.word to ptr
  %table.word = call i64 @get(ptr %batch, i64 $TABLE)
  %table = inttoptr i64 %table.word to ptr
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %some = icmp slt i64 %i, %count
  br i1 %some, label %one, label %out
one:
  %row.at = mul i64 %i, 3
  %row = getelementptr i64, ptr %list, i64 %row.at
  %destination = call i64 @get(ptr %row, i64 0)
  %source = call i64 @get(ptr %row, i64 1)
  %offset = call i64 @get(ptr %row, i64 2)
  %base = call i64 @get(ptr %table, i64 %source)
  %value = add i64 %base, %offset
  call void @set(ptr %words, i64 %destination, i64 %value)
  %i.next = add i64 %i, 1
  br label %next
out:
  ret void
}

; run one record: true when it is done, false when the deadline has passed
define internal i1 @run_record(ptr %pool, ptr %record, i64 %deadline) #0 {
entry:
  %chunks = call i64 @get(ptr %record, i64 4)
  %alone = icmp sle i64 %chunks, 1
  br i1 %alone, label %inline, label %shared
inline:
  %kernel = load ptr, ptr %record, align 8
  %buffers = call i64 @get(ptr %record, i64 1)
  %scalars = call i64 @get(ptr %record, i64 2)
  %buf = inttoptr i64 %buffers to ptr
  %scalar = inttoptr i64 %scalars to ptr
  %parallel = call i64 @get(ptr %record, i64 3)
  call void %kernel(ptr %buf, ptr %scalar, i64 0, i64 %parallel)
  ret i1 true
shared:
  %active = call i64 @get(ptr %pool, i64 $ACTIVE)
  %fresh = icmp eq i64 %active, 0
  br i1 %fresh, label %first, label %join
first:
  call void @publish(ptr %pool, ptr %record)
  br label %join
join:
  %epoch = call i64 @get(ptr %pool, i64 $EPOCH)
  %worked = call i1 @work(ptr %pool, i64 0, i64 %epoch, i64 %deadline)
  br i1 %worked, label %await, label %interrupted
await:
  %all = call i1 @wait(ptr %pool, i64 %deadline)
  br i1 %all, label %finished, label %interrupted
finished:
  call void @set(ptr %pool, i64 $ACTIVE, i64 0)
  ret i1 true
interrupted:
  ret i1 false
}

define i64 @tiny_pool_run(ptr %pool, ptr %batch) #0 {
entry:
  %mode = call i64 @get_mode()
  call void @set_mode(i64 $DEFAULT_MODE)
  %start = call i64 @now(ptr %pool)
  %slice = call i64 @get(ptr %pool, i64 $SLICE_NS)
  %deadline = add i64 %start, %slice
  %count = call i64 @get(ptr %batch, i64 $COUNT)
  %records.word = call i64 @get(ptr %batch, i64 $RECORDS)
  %records = inttoptr i64 %records.word to ptr
  %position.old = call i64 @get(ptr %batch, i64 $POSITION)
  %active = call i64 @get(ptr %pool, i64 $ACTIVE)
  %state = or i64 %position.old, %active
  %fresh = icmp eq i64 %state, 0
  br i1 %fresh, label %prepare, label %next
prepare:
  call void @fix(ptr %batch)
  br label %next
next:
  %position = phi i64 [ %position.old, %entry ], [ %position.old, %prepare ], [ %position.next, %timely ]
  %some = icmp slt i64 %position, %count
  br i1 %some, label %record, label %done
record:
  %offset = mul i64 %position, 5
  %at = getelementptr i64, ptr %records, i64 %offset
  %finished = call i1 @run_record(ptr %pool, ptr %at, i64 %deadline)
  br i1 %finished, label %advance, label %pause
advance:
  %position.next = add i64 %position, 1
  %time = call i64 @now(ptr %pool)
  %late = icmp sgt i64 %time, %deadline
  %more = icmp slt i64 %position.next, %count
  %stop = and i1 %late, %more
  br i1 %stop, label %pause, label %timely
timely:
  br label %next
pause:
  %reached = phi i64 [ %position, %record ], [ %position.next, %advance ]
  call void @set(ptr %batch, i64 $POSITION, i64 %reached)
  call void @set_mode(i64 %mode)
  ret i64 0
done:
  call void @set(ptr %batch, i64 $POSITION, i64 0)
  call void @set_mode(i64 %mode)
  ret i64 1
}

define i64 @tiny_pool_cancel(ptr %pool) #0 {
entry:
  %threads = call i64 @get(ptr %pool, i64 $THREADS)
  %done = getelementptr i64, ptr %pool, i64 $DONE
  %active = call i64 @get(ptr %pool, i64 $ACTIVE)
  %idle = icmp eq i64 %active, 0
  br i1 %idle, label %nothing, label %next
next:
  %t = phi i64 [ 0, %entry ], [ %t.next, %won ]
  %some = icmp slt i64 %t, %threads
  br i1 %some, label %look, label %drain
look:
  %claim = call ptr @claim_of(ptr %pool, i64 %t)
  %fresh = load atomic i64, ptr %claim acquire, align 8
  br label %try
try:
  %word = phi i64 [ %fresh, %look ], [ %seen, %try ]
  %upper = lshr i64 %word, 16
  %end = and i64 %upper, 65535
  %head = and i64 %word, -65536
  %empty = or i64 %head, %end
  %pair = cmpxchg ptr %claim, i64 %word, i64 %empty acq_rel acquire, align 8
  %seen = extractvalue { i64, i1 } %pair, 0
  %swapped = extractvalue { i64, i1 } %pair, 1
  br i1 %swapped, label %won, label %try
won:
  %chunk = and i64 %word, 65535
  %dropped = sub i64 %end, %chunk
  %ignored = atomicrmw add ptr %done, i64 %dropped seq_cst, align 8
  %t.next = add i64 %t, 1
  br label %next
drain:
  %start = call i64 @now(ptr %pool)
  %slice = call i64 @get(ptr %pool, i64 $SLICE_NS)
  %deadline = add i64 %start, %slice
  %all = call i1 @wait(ptr %pool, i64 %deadline)
  br i1 %all, label %quiet, label %busy
quiet:
  call void @set(ptr %pool, i64 $ACTIVE, i64 0)
  ret i64 1
busy:
  ret i64 0
nothing:
  ret i64 1
}

define ptr @tiny_pool_worker(ptr %argument) #0 {
entry:
  %pool = load ptr, ptr %argument, align 8
  %self = call i64 @get(ptr %argument, i64 1)
  call void @set_mode(i64 $DEFAULT_MODE)
  %patience = call i64 @get(ptr %pool, i64 $SPIN_NS)
  %epoch.at = getelementptr i64, ptr %pool, i64 $EPOCH
  %stop.at = getelementptr i64, ptr %pool, i64 $STOP
  %sleeping.at = getelementptr i64, ptr %pool, i64 $SLEEPING
  br label %restart
restart:
  %seen = phi i64 [ 0, %entry ], [ %epoch, %busy ], [ %seen, %awake ]
  %start = call i64 @now(ptr %pool)
  br label %spin
spin:
  %round = phi i64 [ 1, %restart ], [ %round.next, %same ], [ %round.next, %clock ]
  %round.next = add i64 %round, 1
  %epoch = load atomic i64, ptr %epoch.at seq_cst, align 8
  %changed = icmp ne i64 %epoch, %seen
  br i1 %changed, label %called, label %same
called:
  %stop = load atomic i64, ptr %stop.at acquire, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %out, label %busy
busy:
  %ignored = call i1 @work(ptr %pool, i64 %self, i64 %epoch, i64 0)
  br label %restart
same:
  call void @relax()
  %low = and i64 %round, 63
  %unasked = icmp ne i64 %low, 0
  br i1 %unasked, label %spin, label %clock
clock:
  %time = call i64 @now(ptr %pool)
  %spent = sub i64 %time, %start
  %enough = icmp sgt i64 %spent, %patience
  br i1 %enough, label %doze, label %spin
doze:
  %noted = atomicrmw add ptr %sleeping.at, i64 1 seq_cst, align 8
  %epoch.now = load atomic i64, ptr %epoch.at seq_cst, align 8
  %still = icmp eq i64 %epoch.now, %seen
  br i1 %still, label %sleep, label %awake
sleep:
  call void @sleep_on(ptr %pool, i64 $EPOCH, i64 %seen, i64 -1)
  br label %awake
awake:
  %unnoted = atomicrmw sub ptr %sleeping.at, i64 1 seq_cst, align 8
  br label %restart
out:
  ret ptr null
}

define void @tiny_pool_copy(ptr %buf, ptr %scalar, i64 %begin, i64 %end) #0 {
entry:
  %dest = load ptr, ptr %buf, align 8
  %source.word = call i64 @get(ptr %buf, i64 1)
  %source = inttoptr i64 %source.word to ptr
  %nbytes = load i64, ptr %scalar, align 8
  %first = shl i64 %begin, $COPY_SHIFT
  %past = shl i64 %end, $COPY_SHIFT
  %inside = icmp slt i64 %past, %nbytes
  %stop = select i1 %inside, i64 %past, i64 %nbytes
  %last = sub i64 %stop, 64
  br label %wide.next
wide.next:
  %at = phi i64 [ %first, %entry ], [ %at.next, %wide ]
  %fits = icmp sle i64 %at, %last
  br i1 %fits, label %wide, label %bytes.next
wide:
  %from = getelementptr i8, ptr %source, i64 %at
  %to = getelementptr i8, ptr %dest, i64 %at
  %line = load <8 x i64>, ptr %from, align 1
  store <8 x i64> %line, ptr %to, align 1
  %at.next = add i64 %at, 64
  br label %wide.next
bytes.next:
  %byte.at = phi i64 [ %at, %wide.next ], [ %byte.at.next, %bytes ]
  %left = icmp slt i64 %byte.at, %stop
  br i1 %left, label %bytes, label %out
bytes:
  %byte.from = getelementptr i8, ptr %source, i64 %byte.at
  %byte.to = getelementptr i8, ptr %dest, i64 %byte.at
  %byte = load i8, ptr %byte.from, align 1
  store i8 %byte, ptr %byte.to, align 1
  %byte.at.next = add i64 %byte.at, 1
  br label %bytes.next
out:
  ret void
}

define void @tiny_pool_stamp(ptr %buf, ptr %scalar, i64 %begin, i64 %end) #0 {
  %dest = load ptr, ptr %buf, align 8
  %clock = load ptr, ptr %scalar, align 8
  %time = call i64 @read_clock(ptr %clock)
  store i64 %time, ptr %dest, align 8
  ret void
}

attributes #0 = { nounwind "no-builtins" }
""")


def pool_ir(triple: str) -> str:
    """Return the pool as an LLVM module for a host of x86-64 or AArch64, by its triple."""
    arm = triple.startswith("aarch64")
    body = _BODY.substitute(_WORDS, DEFAULT_MODE=0 if arm else 0x1F80)
    return f'target triple = "{triple}"\n{_AARCH64 if arm else _X86_64}{body}'

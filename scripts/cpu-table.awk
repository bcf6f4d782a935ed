# Sorts the stacks that `perf script -F ip,sym,dso` prints into the lines of a table: see
# cpu-table. A stack begins with the function that ran. The first function that a line claims,
# from there outwards, decides; what the kernel does for a system call also depends on who
# made the call. It prints a line for each: the load, the line of the table, nanoseconds.

# kernelLine is the line of a function of the kernel; "" if it says nothing.
function kernelLine(f) {
	if (f ~ /^(__x64_sys_(fsync|fdatasync)|do_fsync|vfs_fsync|ext4_sync_file|blkdev_issue_flush|file_write_and_wait|jbd2_)/) return "log: sync"
	if (f ~ /^(ext4_|xfs_|btrfs_|vfs_iocb_iter_write|iomap_)/) return "log: write"
	if (f ~ /^(tcp_sendmsg|sock_write_iter|__sys_sendto|unix_stream_sendmsg)/) return "write"
	if (f ~ /^(tcp_recvmsg|sock_read_iter|__sys_recvfrom|sock_recvmsg)/) return "read"
	if (f ~ /^(do_epoll|ep_|__x64_sys_(epoll|futex|nanosleep|clock_nanosleep|sched_yield)|do_futex|ret_from_fork)/) return "scheduler"
	if (f ~ /^__x64_sys_(write|sendto|writev)/) return "write"
	if (f ~ /^__x64_sys_(read|recvfrom|readv)/) return "read"
	if (f ~ /^__x64_sys_(pwrite|pwritev|fallocate)/) return "log: write"
	if (f ~ /^(asm_exc_page_fault|exc_page_fault)/) return "page faults"
	if (f ~ /^(asm_)?(sysvec_|common_interrupt)|^irqentry_/) return "interrupts"
	return ""
}

# goLine is the line of a function of the server; "" if it says nothing.
function goLine(f) {
	if (f ~ /^runtime\.(gcBgMarkWorker|gcAssistAlloc|gcDrain|bgsweep|bgscavenge|gcStart|gcMark|sweepone|markroot|scanobject|wbBufFlush|\(\*mspan\)\.sweep)/) return "garbage collection"
	if (f ~ /^runtime\.(mallocgc|newobject|makeslice|growslice|rawbyteslice|slicebytetostring|concatstring)/) return "allocation"
	if (f ~ /^runtime\.(schedule|findRunnable|park_m|mcall|gopark|goready|ready|wakep|startm|stopm|netpoll|exitsyscall|entersyscall|reentersyscall|sysmon|mstart|gosched|goschedImpl|goexit0|newproc|futex|notewakeup|notesleep|retake|handoffp|execute|morestack|newstack|asyncPreempt|resetspinning|casgstatus|runqgrab|injectglist|checkTimers|usleep|osyield|mPark|selectgo|chansend|chanrecv|send|recv)/) return "scheduler"
	if (f ~ /^(sync\.|internal\/sync\.|sync\/atomic|internal\/runtime\/atomic|runtime\.(lock2|unlock2|sem))/ && f !~ /WaitGroup/) return "locks"
	if (f ~ /^(syscall|internal\/poll|net|os)\.|pinfold\/internal\/rawio\./) {
		if (f ~ /[pP]write|[fF](data)?sync/) return "log: write"
		if (f ~ /[rR]ead|[rR]ecv/) return "read"
		if (f ~ /[wW]rite|[sS]end/) return "write"
		return ""
	}
	if (f ~ /^(__vdso_|time\.|runtime\.(nanotime|walltime))/) return "clock"
	if (f ~ /^hash\/crc32\./) return "tree: digest"
	if (f !~ /pinfold\/internal\//) return ""
	sub(/.*pinfold\/internal\//, "", f)
	if (f ~ /^(wire|jute|txn)\.(\(\*Decoder\)|.*[dD]ecode)/) return "decode"
	if (f ~ /^(wire|jute|txn)\./) return "encode"
	if (f ~ /^znode\..*(Digest)/) return "tree: digest"
	if (f ~ /^(znode|watch)\./) return "tree and watches"
	if (f ~ /^(prep|auth|session)\./) return "prepare: checks and zxid"
	if (f ~ /^storage\./) return "log: frame and sum"
	if (f ~ /^vfs\./) return ""
	if (f ~ /^transport\./) return "links: frames"
	if (f ~ /^zab/) return "agreement (Zab)"
	if (f ~ /^replica\./) return "stages and queues"
	if (f ~ /^server\./) return "connection: frames and replies"
	return ""
}

# caller tells whose system call a stack is: of a link, of the log, or of a client.
function caller(    i) {
	for (i = 1; i <= depth; i++) {
		if (frame[i] ~ /pinfold\/internal\/transport\./) return "links: "
		if (frame[i] ~ /pinfold\/internal\/(storage|vfs)\./) return "log: "
		if (frame[i] ~ /pinfold\/internal\/server\./) return "clients: "
	}
	return "clients: "
}

function waking(    i) {
	for (i = 1; i <= depth; i++) if (frame[i] ~ /^(try_to_wake_up|ep_poll_callback|__wake_up_common|sock_def_readable)/) return 1
	return 0
}

function account(    i, line, who) {
	if (depth == 0) return
	samples++
	line = ""
	for (i = 1; i <= depth && line == ""; i++) {
		line = kernel[i] ? kernelLine(frame[i]) : goLine(frame[i])
	}
	if (line == "read" || line == "write") {
		who = caller()
		if (who == "log: ") line = "log: write"
		else if (line == "read") line = who "socket read"
		else line = who (waking() ? "socket write that wakes the reader" : "socket write")
	}
	if (frame[1] == "runtime.memmove" && line ~ /^(connection|stages|agreement|encode|decode|tree|links: frames)/) line = "copying"
	if (line == "") line = "the rest"
	count[line]++
	if (functions > 0) within[line, frame[1]]++
	depth = 0
}

/^$/ { account(); next }

{
	symbol = $2
	for (i = 3; i < NF; i++) symbol = symbol " " $i
	frame[++depth] = symbol
	kernel[depth] = $NF ~ /kernel|\[/
}

END {
	account()
	if (samples == 0) {
		print "cpu-table: no sample" > "/dev/stderr"
		exit 1
	}
	total = int(cpu * 1000 + .5)
	for (line in count) if (largest == "" || count[line] > count[largest]) largest = line
	for (line in count) if (line != largest) {
		ns[line] = int(total * count[line] / samples + .5)
		sum += ns[line]
	}
	ns[largest] = total - sum # with what rounding leaves over
	for (line in ns) print name "\t" line "\t" ns[line]
	while ((getline text < stat) > 0) {
		split(text, field, ",")
		if (field[3] ~ /sys_enter/) calls = field[1]
		if (field[3] ~ /context/) switches = field[1]
		if (field[3] ~ /clock/) spent = field[1] * 1000 # milliseconds
	}
	print name "\tall\t" total
	# What was counted while so much time was spent, for the time of an operation.
	printf "%s\tsystem calls\t%.3g\n", name, calls * cpu / spent
	printf "%s\tswitches of threads\t%.3g\n", name, switches * cpu / spent
	printf "%s\toperations a second\t%d\n", name, rate
	printf "%s\tsamples\t%d\n", name, samples
	listFunctions()
}

# listFunctions tells which functions ran longest, line by line.
function listFunctions(    line, key, k, best, part) {
	for (line in ns) for (k = 0; k < functions; k++) {
		best = ""
		for (key in within) {
			split(key, part, SUBSEP)
			if (part[1] == line && (best == "" || within[key] > within[best])) best = key
		}
		if (best == "") break
		split(best, part, SUBSEP)
		printf "%s: %s: %d ns in %s\n", name, line, total * within[best] / samples + .5, part[2] > "/dev/stderr"
		delete within[best]
	}
}

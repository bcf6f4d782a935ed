package steps

import (
	"context"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/arch/x86/x86asm"
	"golang.org/x/sys/unix"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

var (
	step    = flag.Bool("step", false, "step through a server's reads")
	program = flag.String("program", "", "the server's program, with its symbols; empty: it is built")
	show    = flag.Bool("functions", false, "print the instructions and cache lines of each function")
)

// What a read may cost: some more than it does, as another version of Go compiles otherwise.
const (
	mostInstructions = 6000
	mostLines        = 245
)

// A read of 1 KiB by a client that has one request at a time, from the end of the system call that reads the request to the wait
// for the next one: 5,450 instructions and 225 cache lines. Of these the runtime's poller has 25 lines, and the copies of the data 32.
func TestRead(t *testing.T) {
	if !*step {
		t.Skip("a measurement, which takes up to a minute: -step")
	}
	runtime.LockOSThread() // a thread is traced by one thread
	defer runtime.UnlockOSThread()
	s := startServer(t)
	done := make(chan error, 1)
	warm, next := make(chan struct{}), make(chan struct{}, 1)
	go func() { done <- reads(s.addr, warm, next) }()
	select {
	case <-warm:
	case err := <-done:
		t.Fatal(err)
	}
	tr := tracer{pid: s.pid, symbols: s.symbols, next: next}
	if err := tr.attach(); errors.Is(err, unix.EPERM) {
		t.Skipf("the system does not let this program trace its child: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	next <- struct{}{}
	if err := tr.run(done); err != nil {
		t.Fatal(err)
	}
	best := tr.best()
	if best == nil {
		t.Fatalf("none of %d requests was stepped through without interruption", len(tr.counts))
	}
	t.Logf("%d instructions, %d cache lines; the least of %d requests", best.instructions, len(best.lines), len(tr.counts))
	if *show {
		t.Log("\n" + best.String())
	}
	if best.instructions > mostInstructions || len(best.lines) > mostLines {
		t.Errorf("at most %d instructions and %d lines were expected; -functions shows where", mostInstructions, mostLines)
	}
}

// reads reads a znode: many times until all is warm, and then some times more, after a token for each.
func reads(addr string, warm chan<- struct{}, next <-chan struct{}) error {
	ctx := context.Background()
	c, err := client.Dial(ctx, addr, client.SessionTimeout(60*time.Second))
	if err != nil {
		return err
	}
	defer c.Close()
	const path = "/a-path-of-20-bytes--"
	if _, err := c.Create(ctx, path, make([]byte, 1024), zk.Persistent, nil); err != nil {
		return err
	}
	for range 300 {
		if _, _, err := c.Get(ctx, path); err != nil {
			return err
		}
	}
	close(warm)
	for range 10 {
		select {
		case <-next:
		case <-time.After(2 * time.Second): // the last request was not stepped through to its end
		}
		if _, _, err := c.Get(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

type server struct {
	addr    string
	pid     int
	symbols []elf.Symbol // of functions, by address
}

// startServer starts a server on one processor of Go. A goroutine is preempted by a flag, not by a signal.
func startServer(t *testing.T) *server {
	dir, binary := t.TempDir(), *program
	if binary == "" {
		binary = filepath.Join(dir, "pinfold")
		build := exec.Command("go", "build", "-o", binary, "github.com/pinfold-zk/pinfold/cmd/pinfold")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	s := &server{symbols: functions(t, binary)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(s.addr)
	cfg := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("clientPortAddress=127.0.0.1\nclientPort=%s\ndataDir=%s\nadmin.enableServer=false\n", port, filepath.Join(dir, "data"))
	if err := os.WriteFile(cfg, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "server", cfg)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	t.Cleanup(func() { cmd.Process.Kill() }) // a traced process is not waited for by os/exec
	return s
}

// functions returns the functions of a program, by address.
func functions(t *testing.T, binary string) []elf.Symbol {
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(s elf.Symbol) bool { return elf.ST_TYPE(s.Info) != elf.STT_FUNC })
	slices.SortFunc(all, func(a, b elf.Symbol) int { return int(int64(a.Value) - int64(b.Value)) })
	return all
}

// count is what one request has cost.
type count struct {
	instructions int
	lines        map[uint64]string // addresses by 64, with the function that touched the line first
	by           map[string]int    // instructions by function
}

// String lists the functions with their instructions and the lines that they touched first.
func (c *count) String() string {
	first := map[string]int{}
	for _, f := range c.lines {
		first[f]++
	}
	names := slices.SortedFunc(maps.Keys(c.by), func(a, b string) int { return c.by[b] - c.by[a] })
	var b strings.Builder
	for _, f := range names {
		fmt.Fprintf(&b, "%6d instructions %4d lines  %s\n", c.by[f], first[f], f)
	}
	return b.String()
}

// tracer steps through the server's thread that has read a request, until it waits for the next one.
type tracer struct {
	pid     int
	symbols []elf.Symbol
	mem     *os.File
	next    chan<- struct{} // the client's tokens
	thread  int             // that is stepped through
	present *count          // of its request; nil: none is stepped through
	counts  []*count        // of complete requests
	held    []stop          // of the other threads meanwhile: the runtime's monitor would preempt a goroutine that takes so long
}

// stop is a thread that has stopped, and how it is to go on.
type stop struct {
	thread, how int
	signal      uintptr
}

// attach begins to trace all threads.
func (tr *tracer) attach() (err error) {
	if tr.mem, err = os.Open(fmt.Sprintf("/proc/%d/mem", tr.pid)); err != nil {
		return err
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", tr.pid))
	if err != nil {
		return err
	}
	for _, e := range tasks {
		id, _ := strconv.Atoi(e.Name())
		if err := request(unix.PTRACE_SEIZE, id, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE); err != nil {
			return err
		}
		if err := request(unix.PTRACE_INTERRUPT, id, 0); err != nil {
			return err
		}
	}
	return nil
}

// request makes a request of ptrace that needs no address.
func request(what, thread int, data uintptr) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(what), uintptr(thread), 0, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// run goes on until the client is done.
func (tr *tracer) run(done <-chan error) error {
	defer tr.mem.Close()
	for {
		select {
		case err := <-done:
			return err
		default:
		}
		var status unix.WaitStatus
		thread, err := unix.Wait4(-1, &status, unix.WALL, nil)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for the server: %w", err)
		}
		if thread <= 0 || !status.Stopped() {
			continue
		}
		how, signal, err := tr.stopped(thread, status)
		if err != nil {
			return err
		}
		tr.held = append(tr.held, stop{thread, how, signal})
		if err := tr.goOn(); err != nil {
			return err
		}
	}
}

// goOn continues the threads that have stopped: while one is stepped through, that one alone.
func (tr *tracer) goOn() error {
	left := tr.held[:0]
	for _, s := range tr.held {
		if tr.present != nil && s.thread != tr.thread {
			left = append(left, s)
		} else if err := request(s.how, s.thread, s.signal); err != nil && err != unix.ESRCH {
			return fmt.Errorf("continue the server: %w", err)
		}
	}
	tr.held = left
	return nil
}

// stopped handles a stop of a thread, and returns how it is to go on, and with which signal.
func (tr *tracer) stopped(thread int, status unix.WaitStatus) (how int, signal uintptr, err error) {
	const event = 16 // bits of the status that tell an event
	stepping := func() bool { return tr.present != nil && thread == tr.thread }
	var regs unix.PtraceRegs
	switch sig := status.StopSignal(); {
	case sig == unix.SIGTRAP|0x80: // at the begin or the end of a system call
		if err := unix.PtraceGetRegs(thread, &regs); err != nil {
			return 0, 0, err
		}
		entered, err := entered(thread)
		if err != nil {
			return 0, 0, err
		}
		switch {
		case stepping() && entered:
			switch regs.Orig_rax {
			case unix.SYS_READ, unix.SYS_WRITE:
			case unix.SYS_EPOLL_PWAIT:
				tr.counts = append(tr.counts, tr.present)
				tr.present = nil
				select {
				case tr.next <- struct{}{}:
				default:
				}
			default: // it waits for a thread that is held, or does something else
				tr.present = nil
			}
		case stepping():
			return unix.PTRACE_SINGLESTEP, 0, nil
		case tr.present == nil && !entered && regs.Orig_rax == unix.SYS_READ && isRequest(int64(regs.Rax)):
			tr.thread, tr.present = thread, &count{lines: map[uint64]string{}, by: map[string]int{}}
			return unix.PTRACE_SINGLESTEP, 0, nil
		}
	case sig == unix.SIGTRAP && uint32(status)>>event == 0: // after a step
		if !stepping() {
			break
		}
		if err := unix.PtraceGetRegs(thread, &regs); err != nil {
			return 0, 0, err
		}
		if atCall := tr.step(&regs); !atCall {
			return unix.PTRACE_SINGLESTEP, 0, nil
		}
	case sig != unix.SIGTRAP && uint32(status)>>event == 0:
		signal = uintptr(sig)
		if stepping() {
			return unix.PTRACE_SINGLESTEP, signal, nil
		}
	}
	return unix.PTRACE_SYSCALL, signal, nil
}

// entered reports whether a thread that has stopped at a system call begins it; otherwise the call has ended.
func entered(thread int) (bool, error) {
	var info [88]byte // struct ptrace_syscall_info
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(thread), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return false, errno
	}
	return info[0] == unix.PTRACE_SYSCALL_INFO_ENTRY, nil
}

// isRequest reports whether a read has returned as many bytes as a request of reads.
func isRequest(n int64) bool { return n > 20 && n < 200 }

// step counts the instruction that is next. It reports whether that is a system call.
func (tr *tracer) step(regs *unix.PtraceRegs) (atCall bool) {
	c := tr.present
	var code [16]byte
	tr.mem.ReadAt(code[:], int64(regs.Rip)) // what cannot be read is not decoded
	f := tr.function(regs.Rip)
	c.instructions++
	c.by[f]++
	for _, a := range touched(code[:], regs) {
		if _, again := c.lines[a/64]; !again {
			c.lines[a/64] = f
		}
	}
	return code[0] == 0x0f && code[1] == 0x05
}

// function returns the name of the function at an address, without the path of its package.
func (tr *tracer) function(pc uint64) string {
	i, found := slices.BinarySearchFunc(tr.symbols, pc, func(s elf.Symbol, pc uint64) int { return int(int64(s.Value) - int64(pc)) })
	if !found {
		i--
	}
	if i < 0 || pc >= tr.symbols[i].Value+tr.symbols[i].Size {
		return "the kernel's page (vdso)"
	}
	name := tr.symbols[i].Name
	return name[strings.LastIndexByte(name, '/')+1:]
}

// best returns the count with the fewest instructions of the requests that were handled without interruption.
func (tr *tracer) best() (best *count) {
	for _, c := range tr.counts {
		whole := c.by["server.(*conn).getData"] > 0 && c.by["runtime.netpoll"] > 0 && c.by["runtime.newstack"] == 0
		if whole && (best == nil || c.instructions < best.instructions) {
			best = c
		}
	}
	return best
}

// touched returns the addresses that an instruction reads or writes; of more than 64 bytes only the first and the last. Of
// instructions with a VEX prefix, with which long data is copied, it knows none.
func touched(code []byte, regs *unix.PtraceRegs) (addrs []uint64) {
	in, err := x86asm.Decode(code, 64)
	if err != nil {
		return nil
	}
	switch in.Op {
	case x86asm.LEA, x86asm.NOP:
		return nil
	case x86asm.PUSH, x86asm.CALL:
		addrs = append(addrs, regs.Rsp-8)
	case x86asm.POP, x86asm.RET:
		addrs = append(addrs, regs.Rsp)
	}
	for _, a := range in.Args {
		m, ok := a.(x86asm.Mem)
		if !ok {
			continue
		}
		at := uint64(m.Scale)*register(regs, m.Index) + uint64(m.Disp)
		if m.Base == x86asm.RIP {
			at += regs.Rip + uint64(in.Len)
		} else {
			at += register(regs, m.Base)
		}
		if m.Segment == x86asm.FS {
			at += regs.Fs_base
		}
		addrs = append(addrs, at, at+uint64(max(in.MemBytes, 1))-1)
	}
	return addrs
}

// register returns the content of a register; 0 if it is none.
func register(regs *unix.PtraceRegs, r x86asm.Reg) uint64 {
	if r < x86asm.RAX || r > x86asm.R15 {
		return 0
	}
	return [...]uint64{
		regs.Rax, regs.Rcx, regs.Rdx, regs.Rbx, regs.Rsp, regs.Rbp, regs.Rsi, regs.Rdi,
		regs.R8, regs.R9, regs.R10, regs.R11, regs.R12, regs.R13, regs.R14, regs.R15,
	}[r-x86asm.RAX]
}

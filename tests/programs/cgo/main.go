// Goroutines that allocate and free C memory, threads that come and go, callbacks on threads of C,
// signals, and panics that are recovered from SIGSEGV. Prints one line.
package main

/*
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern uint64_t goCheck(unsigned char *block, uint64_t size);

// A thread of C, which Go has not seen before, calls Go.
static void *call_go(void *result)
{
	uint64_t size = 100000;
	unsigned char *block = calloc(1, size);

	if (block) {
		memset(block, 1, size);
		*(uint64_t *)result = goCheck(block, size);
	}
	free(block);
	return NULL;
}

static uint64_t in_thread(void)
{
	pthread_t thread;
	uint64_t result = 0;

	if (pthread_create(&thread, NULL, call_go, &result) == 0)
		pthread_join(thread, NULL);
	return result;
}
*/
import "C"

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	workers  = 16
	rounds   = 20000
	handed   = 64
	threads  = 200
	faults   = 500
	signals  = 500
	callback = 100
)

// A block whose first and last byte are known.
type block struct {
	bytes []byte
	seed  byte
}

func newBlock(size int, seed byte) block {
	bytes := unsafe.Slice((*byte)(C.malloc(C.size_t(size))), size)
	bytes[0], bytes[size-1] = seed, seed
	return block{bytes, seed}
}

func (b block) free() {
	if first, last := b.bytes[0], b.bytes[len(b.bytes)-1]; first != b.seed || last != b.seed {
		fail("a block of %d has %d and %d, not %d", len(b.bytes), first, last, b.seed)
	}
	C.free(unsafe.Pointer(&b.bytes[0]))
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

//export goCheck
func goCheck(bytes *C.uchar, size C.uint64_t) C.uint64_t {
	var sum C.uint64_t
	for _, value := range unsafe.Slice((*byte)(unsafe.Pointer(bytes)), int(size)) {
		sum += C.uint64_t(value)
	}
	C.free(C.malloc(size))
	return sum
}

// Half of the blocks are freed by the goroutine that allocated them, half by another.
func allocate() (total uint64) {
	var wait sync.WaitGroup
	blocks := make(chan block, handed)
	for worker := 0; worker < workers; worker++ {
		wait.Add(1)
		go func(x uint32) {
			defer wait.Done()
			for i := 0; i < rounds; i++ {
				x = x*1664525 + 1013904223
				size := 1 + int(x>>8)%(1<<(4+(x>>28)))
				one := newBlock(size, byte(x))
				atomic.AddUint64(&total, 1)
				if i%2 == 0 {
					one.free()
					continue
				}
				select {
				case blocks <- one:
				case other := <-blocks:
					other.free()
					one.free()
				}
			}
		}(uint32(worker))
	}
	wait.Wait()
	close(blocks)
	for one := range blocks {
		one.free()
	}
	return total
}

// A goroutine that ends while it holds its thread ends the thread.
func endThreads() {
	var wait sync.WaitGroup
	for i := 0; i < threads; i++ {
		wait.Add(1)
		go func(seed byte) {
			defer wait.Done()
			runtime.LockOSThread()
			newBlock(5000, seed).free()
		}(byte(i))
	}
	wait.Wait()
}

// Go's handler of SIGSEGV, on the signal stack of each thread, makes a panic of a fault.
func fault(address *int) (recovered bool) {
	defer func() { recovered = recover() != nil }()
	return *address == 0
}

func faultEverywhere() (count uint64) {
	unmapped, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_NONE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		fail("mmap: %v", err)
	}
	debug.SetPanicOnFault(true)
	for i := 0; i < faults; i++ {
		address := (*int)(nil)
		if i%2 == 1 {
			address = (*int)(unsafe.Pointer(&unmapped[0]))
		}
		if fault(address) {
			count++
		}
	}
	return count
}

func receiveSignals(done <-chan struct{}) (count int) {
	received := make(chan os.Signal, signals)
	signal.Notify(received, syscall.SIGUSR1)
	for i := 0; i < signals; i++ {
		if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
			fail("kill: %v", err)
		}
		<-received
		count++
	}
	<-done
	return count
}

func main() {
	done := make(chan struct{})
	var blocks, sum uint64
	go func() {
		defer close(done)
		blocks = allocate()
	}()
	received := receiveSignals(done)
	endThreads()
	for i := 0; i < callback; i++ {
		sum += uint64(C.in_thread())
	}
	fmt.Printf("%d blocks, %d threads ended, %d faults, %d signals, %d bytes counted\n",
		blocks, threads, faultEverywhere(), received, sum)
}

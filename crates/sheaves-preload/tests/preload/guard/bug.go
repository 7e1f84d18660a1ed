// A program whose runtime uses SIGSEGV itself, with C code that uses memory after its free.
package main

/*
#include <stdlib.h>
static char look(volatile char *block) { return block[7]; }
*/
import "C"

import (
	"fmt"
	"os"
)

// A nil pointer that the runtime turns into a panic, by its handler of SIGSEGV.
func caught(pointer *int) (found bool) {
	defer func() { found = recover() != nil }()
	return *pointer == 0
}

func main() {
	for round := 0; round < 200; round++ {
		block := C.malloc(30000)
		if !caught(nil) {
			os.Exit(4)
		}
		C.free(block)
	}
	fmt.Println("ok")
	if len(os.Args) > 1 {
		block := C.malloc(30000)
		C.free(block)
		C.look((*C.char)(block))
	}
}

// Package check is what the programs beside it share: where the cache is, and a comparison that ends with exit code 1.
package check

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"
)

// Place is the address of the cache for clients of Redis (1) or of memcached (2).
func Place(argument int) string {
	return "127.0.0.1:" + os.Args[argument]
}

// Same ends the program unless both are the same.
func Same(what string, got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		fail(fmt.Sprintf("%s: %.300v, and not %.300v", what, got, wanted))
	}
}

// Done ends the program when there was an error.
func Done(what string, err error) {
	if err != nil {
		fail(what + ": " + err.Error())
	}
}

// Refused ends the program unless there was an error with these words.
func Refused(what string, err error, words string) {
	if err == nil || !strings.Contains(err.Error(), words) {
		fail(fmt.Sprintf("%s: the error is %v, and not %q", what, err, words))
	}
}

// Soon waits until something holds, and ends the program when it does not.
func Soon(what string, holds func() bool) {
	for end := time.Now().Add(5 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			fail(what + " does not come")
		}
	}
}

// Said says what was compared.
func Said(line string) {
	fmt.Println("ok: " + line)
}

func fail(words string) {
	fmt.Println(words)
	os.Exit(1)
}

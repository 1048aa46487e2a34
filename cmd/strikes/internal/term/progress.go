package term

import (
	"fmt"
	"io"
	"time"
)

const progressEvery = 5 * time.Second

// Progress returns a function that shows the progress of long work. Every five seconds it prints a line with the action
// and the number of messages that are done. all is negative if it is not known.
func Progress(w io.Writer) func(doing string, done, all int) {
	last := time.Now()
	return func(doing string, done, all int) {
		if time.Since(last) < progressEvery {
			return
		}
		last = time.Now()
		if all < 0 {
			fmt.Fprintf(w, "%s: %d\n", doing, done)
			return
		}
		fmt.Fprintf(w, "%s: %d of %d\n", doing, done, all)
	}
}

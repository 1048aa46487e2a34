package term

import (
	"fmt"
	"io"
	"time"
)

// progressEvery is the time between two lines of progress.
const progressEvery = 5 * time.Second

// Progress returns a function that shows how far long work is, in a line every five seconds: the action, and how many
// messages it has done. all is negative if it is not known.
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

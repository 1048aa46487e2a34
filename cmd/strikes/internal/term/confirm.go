package term

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrRefused is returned by Confirm if the answer is no.
var ErrRefused = errors.New("nothing is done")

// Confirm asks a question and returns nil if the answer is yes. Once ctx is done it waits no longer: the read of the
// answer is left behind, because nothing ends it, and the process is about to end.
func Confirm(ctx context.Context, in io.Reader, out io.Writer, question string) error {
	fmt.Fprintf(out, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(in).ReadString('\n') // the end of the input is a no
		answers <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return ErrRefused
	case <-ctx.Done():
		fmt.Fprintln(out)
		return fmt.Errorf("%w: %w", ErrRefused, ctx.Err())
	}
}

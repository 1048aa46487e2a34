// Command release makes the modules of a version as the Go module proxy would serve them:
//
//	go run ./integration/release -version v0.1.0 -proxy DIR   # then: GOPROXY=file://DIR,… go install …/cmd/strikes@v0.1.0
//	go run ./integration/release -version v0.1.0 -write       # edits cmd/strikes/go.mod and go.sum for the commit to tag
//
// In the repository, cmd/strikes and the plugins replace the library by its directory. A released module must require the library's version
// instead: go install refuses a module with a replace directive.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	version := flag.String("version", "", "the `VERSION` to release, such as v0.1.0")
	proxy := flag.String("proxy", "", "write the modules' files to `DIR`, for GOPROXY=file://DIR")
	write := flag.Bool("write", false, "edit the go.mod and go.sum of the command and the plugins in place")
	flag.Parse()
	if err := run(*version, *proxy, *write); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(version, proxy string, write bool) error {
	if proxy == "" && !write {
		return errors.New("nothing to do; give -proxy or -write")
	}
	r, err := open(".", version)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.tree) }() // in the temporary directory
	if proxy != "" {
		err = r.serve(proxy)
	}
	if err == nil && write {
		err = r.copyBack(".")
	}
	return err
}

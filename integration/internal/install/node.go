package install

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// leastNode is the oldest major version of Node.js on which clients/node runs: that of Debian 12.
const leastNode = 18

// findNode returns nil if node and npm are installed, and new enough.
func findNode(ctx context.Context) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return err
	}
	printed, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return err
	}
	return checkNode(string(printed))
}

// checkNode reads what node --version prints, such as v18.20.4.
func checkNode(version string) error {
	major, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(version), "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < leastNode {
		return fmt.Errorf("node is %q, want %d or later", strings.TrimSpace(version), leastNode)
	}
	return nil
}

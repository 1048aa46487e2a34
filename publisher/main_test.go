package publisher

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

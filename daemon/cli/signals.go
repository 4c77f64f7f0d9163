package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signals returns a context that ends with the first SIGINT or SIGTERM, and one that ends with the second.
func signals() (first, second context.Context, stop func()) {
	first, endFirst := context.WithCancel(context.Background())
	second, endSecond := context.WithCancel(context.Background())
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for _, end := range []context.CancelFunc{endFirst, endSecond} {
			select {
			case <-ch:
				end()
			case <-done:
				return
			}
		}
	}()
	return first, second, func() {
		signal.Stop(ch)
		close(done)
		endFirst()
		endSecond()
	}
}

// hangups hears SIGHUP, which would end the process otherwise. Windows has none.
type hangups struct {
	signals  chan os.Signal
	terminal bool // one controls the process, and its hanging up shall end it
}

func listenHangups(foreground bool) *hangups {
	// A process that was started to ignore SIGHUP (nohup) is to outlive its terminal.
	h := &hangups{make(chan os.Signal, 1), foreground && !signal.Ignored(syscall.SIGHUP) && hasTerminal()}
	signal.Notify(h.signals, syscall.SIGHUP)
	return h
}

func (h *hangups) stop() { signal.Stop(h.signals) }

// follow calls reload at each SIGHUP. The context that it returns ends with ctx, and when the terminal is gone.
func (h *hangups) follow(ctx context.Context, reload func()) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-h.signals:
				if h.terminal && !hasTerminal() {
					end()
					return
				}
				reload()
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, end
}

// hasTerminal reports whether a terminal controls the process.
func hasTerminal() bool {
	f, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	f.Close()
	return true
}

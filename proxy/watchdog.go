package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// errTimeout is the cause with which a watchdog ends an attempt.
var errTimeout = errors.New("the upstream gave nothing in time")

// watchdog ends an attempt whose upstream stays silent: before the head after one time, then while a read waits after
// another. The time in which the client is slow to take what came does not count. It is one timer for the attempt's
// whole life; signs of life move a mark, not the timer.
type watchdog struct {
	cancel context.CancelCauseFunc
	now    func() time.Time
	timer  *time.Timer
	limit  atomic.Int64 // nanoseconds of silence allowed
	mark   atomic.Int64 // since when is being waited, Unix nanoseconds; 0: nobody waits
	bit    atomic.Bool
}

func newWatchdog(cancel context.CancelCauseFunc, limit time.Duration, now func() time.Time) *watchdog {
	d := &watchdog{cancel: cancel, now: now}
	d.limit.Store(int64(limit))
	d.waiting()
	d.timer = time.AfterFunc(limit, d.look)
	return d
}

// waiting notes that a read begins, alive that something came.
func (d *watchdog) waiting() { d.mark.Store(d.now().UnixNano()) }
func (d *watchdog) alive()   { d.mark.Store(0) }

// idle sets another limit, from now on.
func (d *watchdog) idle(limit time.Duration) {
	d.limit.Store(int64(limit))
	d.alive()
	d.timer.Reset(limit)
}

func (d *watchdog) look() {
	left := d.limit.Load()
	if mark := d.mark.Load(); mark != 0 {
		left -= d.now().UnixNano() - mark
	}
	if left > 0 {
		d.timer.Reset(time.Duration(left))
		return
	}
	d.bit.Store(true)
	d.cancel(errTimeout)
}

// fired reports whether the attempt was ended for its silence.
func (d *watchdog) fired() bool { return d.bit.Load() }

// stop ends the watch and the attempt's context.
func (d *watchdog) stop() {
	d.timer.Stop()
	d.cancel(context.Canceled)
}

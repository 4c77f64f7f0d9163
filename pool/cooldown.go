package pool

import (
	"maps"
	"math/rand/v2"
	"time"
)

const (
	backoffFirst   = 30 * time.Second
	backoffLast    = 30 * time.Minute
	credentialCool = time.Hour
	capCool        = time.Hour
	modelCool      = 10 * time.Minute
	loneKeyCool    = 5 * time.Second // a hiccup must not black out who has one key
	shortestReset  = time.Second
	longestReset   = 7 * 24 * time.Hour
	maxCooldowns   = 4096 // client-chosen model names must not fill the memory
)

// coolKey is what cools: a key, for one caller's credential where the key passes that on, for one upstream model
// or one family of models where the provider limits by those.
type coolKey struct{ key, credential, model, family string }

type cooldown struct {
	until  time.Time
	reason Class
	model  string    // of a family: the one that was refused last
	set    time.Time // failures that began before this are the same event
	// Consecutive failures without a stated reset, by kind; a success clears them.
	rate, overload, fault int
}

func (c *cooldown) streak() int { return max(c.rate, c.overload, c.fault) }

// cooldowns has the cooling state of a pool; the pool's lock guards it.
type cooldowns struct {
	m    map[coolKey]*cooldown
	rand *rand.Rand
}

// until returns when the key is free again for model, and why it is not; a zero time means it is free.
func (c *cooldowns) until(now time.Time, key, credential, model string) (time.Time, Class) {
	var until time.Time
	var why Class
	look := func(k coolKey) {
		if e := c.m[k]; e != nil && e.until.After(now) && e.until.After(until) {
			until, why = e.until, e.reason
		}
	}
	if len(c.m) == 0 {
		return until, why
	}
	look(coolKey{key: key})
	look(coolKey{key: key, model: model})
	if credential != "" {
		look(coolKey{key: key, credential: credential})
		look(coolKey{key: key, credential: credential, model: model})
	}
	if family := familyOf(model); family != "" { // rate limits alone, which are the credential's
		look(coolKey{key: key, credential: credential, family: family})
	}
	return until, why
}

// success clears the streaks of the key, of (key, model) and of (key, family); a cooldown that another request earned
// meanwhile stays, and the time of the last one too: failures of the same event may still come in.
func (c *cooldowns) success(key, credential, model string) {
	if len(c.m) == 0 {
		return
	}
	for _, k := range []coolKey{
		{key: key}, {key: key, model: model},
		{key: key, credential: credential}, {key: key, credential: credential, model: model},
		{key: key, credential: credential, family: familyOf(model)},
	} {
		if e := c.m[k]; e != nil {
			e.rate, e.overload, e.fault = 0, 0, 0
		}
	}
}

// clear forgets all of a key.
func (c *cooldowns) clear(key string) {
	maps.DeleteFunc(c.m, func(k coolKey, _ *cooldown) bool { return k.key == key })
}

// fail cools what the outcome says. began is when the attempt began, lone says that no other key can serve.
func (c *cooldowns) fail(now, began time.Time, key, credential, model string, o Outcome, lone bool) {
	k := coolKey{key: key}
	switch o.Class {
	case RateLimit:
		k.credential = credential
		switch family := familyOf(model); {
		case o.KeyWide:
		case o.FamilyWide && family != "":
			k.family = family
		default:
			k.model = model
		}
	case Overload, UnknownModel:
		k.model = model
	case Credential, Cap:
		k.credential = credential
	case Fault:
	default:
		return
	}
	e := c.m[k]
	if e == nil {
		c.makeRoom(now)
		e = &cooldown{}
		c.m[k] = e
	}
	if began.Before(e.set) {
		return
	}
	d := c.spread(e.length(o))
	if lone && o.Reset == 0 && passing(o.Class) {
		d = min(d, loneKeyCool)
	}
	if until := now.Add(d); until.After(e.until) {
		e.until, e.reason, e.model = until, o.Class, model
	}
	e.set = now
}

// spread adds jitter, so that all who wait do not come at once, and bounds the time; 0, not stated, stays.
func (c *cooldowns) spread(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	d += time.Duration(c.rand.Float64() * 0.1 * float64(d))
	return min(max(d, shortestReset), longestReset)
}

// passing reports whether a fault may be over in a moment.
func passing(c Class) bool { return c == RateLimit || c == Overload || c == Fault }

// length returns how long the outcome cools, and counts it.
func (e *cooldown) length(o Outcome) time.Duration {
	if o.Reset > 0 {
		return o.Reset
	}
	var n *int
	switch o.Class {
	case Credential:
		return credentialCool
	case Cap:
		return capCool
	case UnknownModel:
		return modelCool
	case RateLimit:
		n = &e.rate
	case Overload:
		n = &e.overload
	default:
		n = &e.fault
	}
	d := min(backoffFirst<<min(*n, 10), backoffLast)
	*n++
	return d
}

// makeRoom drops what is over when the map has grown large, then what ends first.
func (c *cooldowns) makeRoom(now time.Time) {
	if len(c.m) < maxCooldowns {
		return
	}
	maps.DeleteFunc(c.m, func(_ coolKey, e *cooldown) bool { return !e.until.After(now) })
	for len(c.m) >= maxCooldowns {
		var first coolKey
		var at time.Time
		for k, e := range c.m {
			if (k.model != "" || k.family != "" || k.credential != "") && (at.IsZero() || e.until.Before(at)) {
				first, at = k, e.until
			}
		}
		if at.IsZero() {
			return
		}
		delete(c.m, first)
	}
}

package pool

import (
	"math"
	"testing"
	"time"
)

// KEY-019 below Lease's gates, which let no drained key through: the draw itself bears weights of zero and rubbish.
func TestKEY019DrawBearsAnyWeight(t *testing.T) {
	for _, tc := range []struct {
		name string
		used []float64 // of a limit of 10
		want []float64 // shares
	}{
		{"0 0 0", []float64{10, 10, 10}, []float64{1. / 3, 1. / 3, 1. / 3}},
		{"0 5", []float64{10, 5}, []float64{0, 1}},
		{"5 0", []float64{5, 10}, []float64{1, 0}},
		{"0 0 2", []float64{10, 10, 8}, []float64{0, 0, 1}},
		{"negative counts as zero", []float64{13, 8}, []float64{0, 1}},
		{"all negative", []float64{13, 99}, []float64{.5, .5}},
		{"NaN counts as zero", []float64{math.NaN(), 13, 8}, []float64{0, 0, 1}},
		{"NaN last counts as zero", []float64{8, 13, math.NaN()}, []float64{1, 0, 0}},
		{"one alone", []float64{10}, []float64{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := New(Defaults(), nil, func() time.Time { return time.Unix(0, 0).UTC() }, 1)
			sticky := &tier{Tier: Tier{Strategy: SessionSticky}}
			var open []candidate
			for _, u := range tc.used {
				open = append(open, candidate{key: &key{Key: Key{DailyLimit: 10}, used: used{today: u}}})
			}
			got := map[*key]int{}
			for range 3000 {
				got[p.draw(sticky, open, "").key]++
			}
			for i, c := range open {
				if chance := sticky.chance(i, open, ""); math.Abs(chance-tc.want[i]) > 1e-9 {
					t.Errorf("key %d: the chance is given as %.3f, want %.3f", i, chance, tc.want[i])
				}
				if share := float64(got[c.key]) / 3000; math.Abs(share-tc.want[i]) > 0.04 {
					t.Errorf("key %d got %.3f, want %.3f", i, share, tc.want[i])
				}
			}
		})
	}
}

package playbook

import "slices"

// SourceSupport is the support of a bullet from one source.
type SourceSupport struct {
	Source string `msgpack:"o" json:"source"`
	Count  int    `msgpack:"n" json:"n"` // number of supporting executions
}

// maxSources is the maximum length of SupportBySource, the entry of OtherSources included.
const maxSources = 16

// OtherSources is the entry that counts the support of all sources beyond the first ones.
const OtherSources = "(others)"

// addSupport adds n to the counters SupportBySource and InferredSupport for each supporting execution of an operation. A negative n takes support
// back. support has indices into covers. The old list SupportBySource stays unchanged.
func (b *Bullet) addSupport(covers []Cover, support []int, n int) {
	list := slices.Clone(b.SupportBySource)
	for _, i := range support {
		if i >= len(covers) || covers[i].Evidence == nil {
			continue
		}
		e := covers[i].Evidence
		if e.Inferred {
			b.InferredSupport = max(0, b.InferredSupport+n)
		}
		if e.Source != "" {
			list = addToSource(list, e.Source, n)
		}
	}
	b.SupportBySource = list
}

// mergeSupport returns a copy of SupportBySource with the entries of another bullet added.
func (b *Bullet) mergeSupport(other []SourceSupport) []SourceSupport {
	list := slices.Clone(b.SupportBySource)
	for _, o := range other {
		list = addToSource(list, o.Source, o.Count)
	}
	return list
}

// addToSource adds n to the entry of a source, and returns the list, which it may change. If the list has no entry of the source, it appends one,
// or adds n to the entry of OtherSources if the list is full. A negative n then changes nothing.
func addToSource(list []SourceSupport, source string, n int) []SourceSupport {
	for i := range list {
		if list[i].Source == source {
			list[i].Count = max(0, list[i].Count+n)
			return list
		}
	}
	switch {
	case n < 0:
		return list
	case source != OtherSources && len(list) >= maxSources-1:
		return addToSource(list, OtherSources, n)
	}
	return append(list, SourceSupport{source, n})
}

// maxLearnedFrom is the maximum length of Bullet.LearnedFrom.
const maxLearnedFrom = 16

// learnFrom records the reflections behind an operation that sets or repeats the text of the bullet.
func (b *Bullet) learnFrom(op *Op, covers []Cover) {
	for _, i := range op.Support {
		if i < len(covers) && covers[i].Evidence != nil {
			b.addReflections(covers[i].Seq)
		}
	}
}

// addReflections adds reflections to LearnedFrom. If the list is full, it drops those in the middle.
func (b *Bullet) addReflections(seqs ...uint64) {
	for _, seq := range seqs {
		if slices.Contains(b.LearnedFrom, seq) {
			continue
		}
		b.LearnedFrom = append(slices.Clip(b.LearnedFrom), seq)
		if len(b.LearnedFrom) > maxLearnedFrom {
			b.LearnedFrom = slices.Delete(b.LearnedFrom, maxLearnedFrom/2, maxLearnedFrom/2+1)
		}
	}
}

// onlyInferred reports whether all executions behind an operation have an inferred outcome. It is false without executions.
func onlyInferred(op *Op, covers []Cover) bool {
	found := false
	for _, i := range op.Support {
		if i < len(covers) && covers[i].Evidence != nil {
			found = true
			if !covers[i].Evidence.Inferred {
				return false
			}
		}
	}
	return found
}

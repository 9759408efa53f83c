package events

import (
	"fmt"
	"reflect"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"debrief/playbook"
)

// An execution lists the bullets of its prompt twice, as ShownBullet and as Part: often more than a hundred of each. The
// library would read and write every field by reflection. These functions write the same bytes.

func init() {
	msgpack.Register([]ShownBullet(nil), encodeList(encodeShownBullet), decodeList(decodeShownBullet))
	msgpack.Register([]Part(nil), encodeList(encodePart), decodeList(decodePart))
}

// encodeList returns a function that encodes a slice by encoding each element.
func encodeList[T any](encode func(*fieldWriter, *T)) func(*msgpack.Encoder, reflect.Value) error {
	return func(enc *msgpack.Encoder, v reflect.Value) error {
		var list []T
		if v.CanAddr() {
			list = *v.Addr().Interface().(*[]T) // Interface alone would allocate
		} else {
			list = v.Interface().([]T)
		}
		if list == nil {
			return enc.EncodeNil()
		}
		w := &fieldWriter{enc: enc, err: enc.EncodeArrayLen(len(list))}
		for i := range list {
			encode(w, &list[i])
		}
		return w.err
	}
}

// fieldWriter writes the fields of structs. After an error it writes nothing.
type fieldWriter struct {
	enc *msgpack.Encoder
	err error
}

// begin starts a struct of n fields.
func (w *fieldWriter) begin(n int) {
	if w.err == nil {
		w.err = w.enc.EncodeMapLen(n)
	}
}

func (w *fieldWriter) text(name, value string) {
	if w.err == nil {
		w.err = w.enc.EncodeString(name)
	}
	if w.err == nil {
		w.err = w.enc.EncodeString(value)
	}
}

func (w *fieldWriter) number(name string, value int) {
	if w.err == nil {
		w.err = w.enc.EncodeString(name)
	}
	if w.err == nil {
		w.err = w.enc.EncodeInt(int64(value))
	}
}

// count returns the number of true values.
func count(present ...bool) (n int) {
	for _, p := range present {
		if p {
			n++
		}
	}
	return n
}

func encodeShownBullet(w *fieldWriter, b *ShownBullet) {
	w.begin(2 + count(b.Experiment != 0))
	w.text("id", string(b.ID))
	w.text("content", b.Content)
	if b.Experiment != 0 {
		w.number("x", b.Experiment)
	}
}

func encodePart(w *fieldWriter, p *Part) {
	w.begin(1 + count(p.Ref != "", p.Tokens != 0, p.Keep != 0, p.Text != "", p.Why != ""))
	w.text("k", string(p.Kind))
	if p.Ref != "" {
		w.text("r", p.Ref)
	}
	if p.Tokens != 0 {
		w.number("t", p.Tokens)
	}
	if p.Keep != 0 {
		w.number("c", p.Keep)
	}
	if p.Text != "" {
		w.text("x", p.Text)
	}
	if p.Why != "" {
		w.text("w", p.Why)
	}
}

// maxAtOnce is the number of elements for which memory is allocated before they are read. A hostile list can declare many more,
// because an element can be one byte long.
const maxAtOnce = 256

// decodeList returns a function that decodes a slice. decode sets the field with a name, and reports whether it is known.
func decodeList[T any](decode func(dec *msgpack.Decoder, name []byte, to *T) (known bool, err error)) func(*msgpack.Decoder, reflect.Value) error {
	return func(dec *msgpack.Decoder, v reflect.Value) error {
		n, err := dec.DecodeArrayLen()
		if err != nil || n < 0 { // nil
			return err
		}
		list := make([]T, 0, min(n, maxAtOnce))
		var name []byte
		for range n {
			list = append(list, *new(T))
			c, err := dec.PeekCode()
			if err != nil {
				return err
			}
			if msgpcode.IsExt(c) { // DecodeMapLen would read a map in it, which guard did not check
				return fmt.Errorf("unexpected code %#x for a struct", c)
			}
			fields, err := dec.DecodeMapLen()
			if err != nil {
				return err
			}
			for range fields { // none for nil
				name, err = readName(dec, name)
				if err != nil {
					return err
				}
				known, err := decode(dec, name, &list[len(list)-1])
				if err == nil && !known {
					err = dec.Skip()
				}
				if err != nil {
					return err
				}
			}
		}
		*v.Addr().Interface().(*[]T) = list
		return nil
	}
}

// readName reads the name of a field into buf.
func readName(dec *msgpack.Decoder, buf []byte) ([]byte, error) {
	n, err := dec.DecodeBytesLen()
	if err != nil {
		return nil, err
	}
	n = max(n, 0)
	if n > cap(buf) {
		buf = make([]byte, n, max(n, 16))
	}
	return buf[:n], dec.ReadFull(buf[:n])
}

func decodeShownBullet(dec *msgpack.Decoder, name []byte, b *ShownBullet) (known bool, err error) {
	switch string(name) {
	case "id":
		var id string
		id, err = dec.DecodeString()
		b.ID = playbook.BulletID(id)
	case "content":
		b.Content, err = dec.DecodeString()
	case "x":
		b.Experiment, err = dec.DecodeInt()
	default:
		return false, nil
	}
	return true, err
}

func decodePart(dec *msgpack.Decoder, name []byte, p *Part) (known bool, err error) {
	switch string(name) {
	case "k":
		var kind string
		kind, err = dec.DecodeString()
		p.Kind = PartKind(kind)
	case "r":
		p.Ref, err = dec.DecodeString()
	case "t":
		p.Tokens, err = dec.DecodeInt()
	case "c":
		p.Keep, err = dec.DecodeInt()
	case "x":
		p.Text, err = dec.DecodeString()
	case "w":
		p.Why, err = dec.DecodeString()
	default:
		return false, nil
	}
	return true, err
}

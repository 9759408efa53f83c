package events

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"debrief/playbook"
)

// This file contains all uses of MessagePack in Debrief, which a test enforces. The library is fast and complete,
// but hostile input can crash it. So guard checks all input before the library reads it, and checkWireType and init
// restrict the target types to those that the library decodes safely.

// encoder and decoder are the library's types with their buffers. They are pooled. A buffer that a large payload
// has grown beyond maxPooled bytes is not returned to the pool.
type (
	encoder struct {
		*msgpack.Encoder
		buf bytes.Buffer
	}
	decoder struct {
		*msgpack.Decoder
		r bytes.Reader
	}
)

const maxPooled = 128 << 10

var (
	encoders = sync.Pool{New: func() any { return &encoder{Encoder: msgpack.NewEncoder(nil)} }}
	decoders = sync.Pool{New: func() any { return &decoder{Decoder: msgpack.NewDecoder(nil)} }}
)

// Marshal returns v as MessagePack: structs as maps, integers in their shortest form. The same value always has the
// same bytes. Unmarshal accepts every result of Marshal.
func Marshal(v any) ([]byte, error) {
	if err := checkWireType(reflect.TypeOf(v)); err != nil {
		return nil, err
	}
	enc := encoders.Get().(*encoder)
	enc.buf.Reset()
	enc.Reset(&enc.buf)
	enc.UseCompactInts(true)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	data := bytes.Clone(enc.buf.Bytes())
	if enc.buf.Cap() <= maxPooled {
		encoders.Put(enc)
	}
	return data, guard(data) // so that Unmarshal accepts it
}

// UnmarshalReply decodes the payload of a reply about a book into v. If v is an event, it gets the book, which is not in payloads.
func UnmarshalReply(b playbook.Book, data []byte, v any) error {
	if err := Unmarshal(data, v); err != nil {
		return err
	}
	if e, ok := v.(Event); ok {
		e.setBook(b)
	}
	return nil
}

// Unmarshal decodes data into v, a pointer to a zero value. Data may be hostile: guard checks it first. Unknown
// fields are ignored, and times are in UTC.
func Unmarshal(data []byte, v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() || !p.Elem().IsZero() {
		return fmt.Errorf("unmarshal into %T: want a pointer to a zero value", v) // the decoder would keep old fields
	}
	if err := checkWireType(p.Type()); err != nil {
		return err
	}
	if err := guard(data); err != nil {
		return err
	}
	dec := decoders.Get().(*decoder)
	dec.r.Reset(data)
	dec.Reset(&dec.r)
	if err := dec.Decode(v); err != nil { // a decoder with an error is not reused
		if key := keyAt(data, len(data)-dec.r.Len()); key != "" {
			return fmt.Errorf("field %q: %w", key, err)
		}
		return err
	}
	dec.r.Reset(nil)
	if len(data) <= maxPooled { // the decoder keeps a buffer for its longest string
		decoders.Put(dec)
	}
	return nil
}

var headerType = reflect.TypeFor[map[string][]string]()

// checkedTypes has the results of checkWireType.
var checkedTypes sync.Map // reflect.Type to error or nil

// checkWireType returns an error for a type that cannot be encoded. With an interface the sender would choose the type
// to allocate. A map has no order, so one value would have several encodings. Also, the library's map decoder skips
// the head of an extension value and reads a map inside it, which guard did not check.
func checkWireType(t reflect.Type) error {
	if t == nil {
		return errors.New("nil cannot be encoded")
	}
	if err, ok := checkedTypes.Load(t); ok {
		err, _ := err.(error)
		return err
	}
	err := checkType(t, nil)
	checkedTypes.Store(t, err)
	return err
}

func checkType(t reflect.Type, within []reflect.Type) error {
	if t == headerType || t == reflect.TypeFor[time.Time]() || slices.Contains(within, t) {
		return nil
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Interface, reflect.Map:
		return fmt.Errorf("unsupported type %s: use a struct or a slice of structs", t)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return checkType(t.Elem(), within)
	case reflect.Struct:
		for f := range t.Fields() {
			if f.Tag.Get("msgpack") == "-" || !f.IsExported() && !f.Anonymous {
				continue
			}
			if err := checkType(f.Type, within); err != nil {
				return fmt.Errorf("%s.%s: %w", t.Name(), f.Name, err)
			}
		}
	}
	return nil
}

// The library's decoder for times panics on nil, accepts three encodings and returns local time. Its map decoder
// has the fault that checkWireType describes. Both decoders must be replaced before the library examines any type, hence init.
func init() {
	msgpack.Register(time.Time{}, encodeTime, decodeTime)
	msgpack.Register(map[string][]string(nil), encodeHeader, decodeHeader)
}

func encodeTime(enc *msgpack.Encoder, v reflect.Value) error {
	var t time.Time
	if v.CanAddr() {
		t = *v.Addr().Interface().(*time.Time) // Interface alone would allocate a copy
	} else {
		t = v.Interface().(time.Time)
	}
	if err := checkTime(t); err != nil {
		return err
	}
	return enc.EncodeTime(t)
}

// checkTime returns an error for a time that JSON cannot represent. A log with such a time could not be read again.
func checkTime(t time.Time) error {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("year %d of a time: want 0 to 9999", y)
	}
	return nil
}

func decodeTime(dec *msgpack.Decoder, v reflect.Value) error {
	c, err := dec.PeekCode()
	if err != nil {
		return err
	}
	if c == msgpcode.Nil { // some languages encode a missing time as nil
		return dec.DecodeNil()
	}
	if !msgpcode.IsExt(c) {
		return fmt.Errorf("unexpected code %#x for a time", c)
	}
	t, err := dec.DecodeTime()
	if err != nil {
		return err
	}
	t = t.UTC()
	if err := checkTime(t); err != nil {
		return err
	}
	*v.Addr().Interface().(*time.Time) = t
	return nil
}

func encodeHeader(enc *msgpack.Encoder, v reflect.Value) error {
	h := v.Interface().(map[string][]string)
	if err := enc.EncodeMapLen(len(h)); err != nil {
		return err
	}
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := enc.EncodeString(name); err != nil {
			return err
		}
		if err := enc.EncodeValue(reflect.ValueOf(h[name])); err != nil {
			return err
		}
	}
	return nil
}

func decodeHeader(dec *msgpack.Decoder, v reflect.Value) error {
	c, err := dec.PeekCode()
	if err != nil {
		return err
	}
	if msgpcode.IsExt(c) {
		return fmt.Errorf("unexpected code %#x for a header", c)
	}
	n, err := dec.DecodeMapLen()
	if err != nil || n <= 0 {
		return err
	}
	h := make(map[string][]string, n)
	for range n {
		name, err := dec.DecodeString()
		if err != nil {
			return err
		}
		var values []string
		if err := dec.Decode(&values); err != nil {
			return err
		}
		h[name] = values
	}
	v.Set(reflect.ValueOf(h))
	return nil
}

// shownFields is the number of fields of a ShownBullet in MessagePack.
const shownFields = 4

// EncodeMsgpack implements msgpack.CustomEncoder.
func (b *ShownBullet) EncodeMsgpack(enc *msgpack.Encoder) error {
	if err := enc.EncodeArrayLen(shownFields); err != nil {
		return err
	}
	if err := enc.EncodeString(string(b.ID)); err != nil {
		return err
	}
	if err := enc.EncodeUint(uint64(b.Wording)); err != nil {
		return err
	}
	if err := enc.EncodeInt(int64(b.Experiment)); err != nil {
		return err
	}
	return enc.EncodeString(b.Why)
}

// DecodeMsgpack implements msgpack.CustomDecoder. It skips fields that a later version may add.
func (b *ShownBullet) DecodeMsgpack(dec *msgpack.Decoder) error {
	n, err := dec.DecodeArrayLen()
	if err != nil {
		return err
	}
	if n < shownFields {
		return fmt.Errorf("bullet in a prompt: want an array of at least %d fields, got %d", shownFields, n)
	}
	id, err := dec.DecodeString()
	if err != nil {
		return err
	}
	b.ID = playbook.BulletID(id)
	if b.Wording, err = dec.DecodeUint32(); err != nil {
		return err
	}
	if b.Experiment, err = dec.DecodeInt(); err != nil {
		return err
	}
	if b.Why, err = dec.DecodeString(); err != nil {
		return err
	}
	for range n - shownFields {
		if err := dec.Skip(); err != nil {
			return err
		}
	}
	return nil
}

// lineFields is the number of fields of an AdviceLine in MessagePack.
const lineFields = 6

// EncodeMsgpack implements msgpack.CustomEncoder.
func (l *AdviceLine) EncodeMsgpack(enc *msgpack.Encoder) error {
	if err := enc.EncodeArrayLen(lineFields); err != nil {
		return err
	}
	for _, n := range [...]int{l.Start, l.End, int(l.Wording)} {
		if err := enc.EncodeInt(int64(n)); err != nil {
			return err
		}
	}
	for _, s := range [...]string{string(l.Bullet), string(l.Reflection), l.Field} {
		if err := enc.EncodeString(s); err != nil {
			return err
		}
	}
	return nil
}

// DecodeMsgpack implements msgpack.CustomDecoder. It skips fields that a later version may add.
func (l *AdviceLine) DecodeMsgpack(dec *msgpack.Decoder) (err error) {
	n, err := dec.DecodeArrayLen()
	if err != nil {
		return err
	}
	if n < lineFields {
		return fmt.Errorf("line of advice: want an array of at least %d fields, got %d", lineFields, n)
	}
	if l.Start, err = dec.DecodeInt(); err != nil {
		return err
	}
	if l.End, err = dec.DecodeInt(); err != nil {
		return err
	}
	if l.Wording, err = dec.DecodeUint32(); err != nil {
		return err
	}
	for _, s := range [...]*string{(*string)(&l.Bullet), (*string)(&l.Reflection), &l.Field} {
		if *s, err = dec.DecodeString(); err != nil {
			return err
		}
	}
	for range n - lineFields {
		if err := dec.Skip(); err != nil {
			return err
		}
	}
	return nil
}

package traces

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// maxExpression is the maximum length of an expression in bytes. It bounds the recursion of the parser.
const maxExpression = 500

var errExpression = errors.New("not an arithmetic expression")

// separateNumbers matches two numbers without an operator between them.
var separateNumbers = regexp.MustCompile(`[0-9.]\s+[0-9.]`)

// arithmetic returns the value of an expression of numbers, + - * / and parentheses.
func arithmetic(text string) (float64, error) {
	if len(text) > maxExpression || separateNumbers.MatchString(text) {
		return 0, errExpression
	}
	p := &expression{rest: strings.Join(strings.Fields(text), "")}
	v := p.sum()
	if p.rest != "" || p.failed || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, errExpression
	}
	return v, nil
}

// expression is a recursive descent parser.
type expression struct {
	rest   string
	failed bool
}

// next consumes one of the characters and returns it, or 0.
func (p *expression) next(chars string) byte {
	if p.rest == "" || strings.IndexByte(chars, p.rest[0]) < 0 {
		return 0
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	return c
}

func (p *expression) sum() float64 {
	v := p.product()
	for {
		switch p.next("+-") {
		case '+':
			v += p.product()
		case '-':
			v -= p.product()
		default:
			return v
		}
	}
}

func (p *expression) product() float64 {
	v := p.factor()
	for {
		switch p.next("*/") {
		case '*':
			v *= p.factor()
		case '/':
			v /= p.factor()
		default:
			return v
		}
	}
}

func (p *expression) factor() float64 {
	switch p.next("-+(") {
	case '-':
		return -p.factor()
	case '+':
		return p.factor()
	case '(':
		v := p.sum()
		p.failed = p.failed || p.next(")") == 0
		return v
	}
	n := 0
	for n < len(p.rest) && strings.IndexByte("0123456789.", p.rest[n]) >= 0 {
		n++
	}
	v, err := strconv.ParseFloat(p.rest[:n], 64)
	p.failed = p.failed || err != nil
	p.rest = p.rest[n:]
	return v
}

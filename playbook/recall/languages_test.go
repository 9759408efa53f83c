package recall_test

import (
	"fmt"
	"strings"
	"testing"

	"debrief/playbook/recall"
)

// inflected is a noun as a rule has it, and in the other form of a task.
type inflected struct{ rule, task string }

var (
	arabic = []inflected{
		{"الاسترداد", "استردادًا"},
		{"الفاتورة", "فاتورتي"},
		{"الشحنة", "بالشحنة"},
		{"كلمة المرور", "لكلمة مرور"},
		{"الطابعة", "والطابعات"},
		{"الحجز", "حجوزاتي وحجزي"},
		{"الضمان", "للضمان"},
		{"المستودع", "مستودعنا"},
		{"الإلغاء", "إلغاءها"},
		{"العميل", "للعميلين"},
		{"الخصم", "بخصمٍ"},
		{"المخزون", "مخزونهم"},
	}
	thai = []inflected{
		{"การคืนเงิน", "ขอคืนเงิน"},
		{"ใบแจ้งหนี้", "แจ้งหนี้ผิด"},
		{"การจัดส่ง", "จัดส่งช้า"},
		{"รหัสผ่าน", "ลืมรหัสผ่าน"},
		{"เครื่องพิมพ์", "พิมพ์ไม่ออก"},
		{"การจอง", "จองห้อง"},
		{"การรับประกัน", "รับประกันหมด"},
		{"คลังสินค้า", "สินค้าในคลัง"},
		{"การยกเลิก", "ยกเลิกคำสั่ง"},
		{"ส่วนลด", "ขอส่วนลด"},
		{"ใบเสร็จ", "ใบเสร็จหาย"},
		{"ภาษี", "คิดภาษี"},
	}
	// A sentence of one language and a rule of another share only a name, a code or a number.
	mixed = []inflected{
		{"Postgres", "数据库Postgres崩溃了"},
		{"ERR-4102", "يظهر الخطأ ERR-4102"},
		{"room 731", "الغرفة ٧٣١"},
		{"Kubernetes", "إعادة تشغيل كوبرنيتس Kubernetes"},
		{"invoice 2,450", "الفاتورة ٢٤٥٠"},
		{"SAP", "请在SAP里登记"},
		{"Zürich", "إلى Zürich"},
		{"A320", "航班A320延误"},
		{"gate 57", "البوابة ٥٧"},
		{"getUserID", "调用getUserID失败"},
		{"row 912", "ردیف ۹۱۲"},
		{"Visa", "وVisa مرفوضة"},
	}
)

// languageCases are the texts of the rules, and the frames of other rules and tasks. They share words as texts of one language do.
var languageCases = []struct {
	name          string
	nouns         []inflected
	rules, tasks  []string // with one place for a noun
	others        []string // nouns of other rules
	otherFeatures []string
}{
	{
		"arabic", arabic,
		[]string{"في حالة %s أرسل الطلب إلى الفريق", "عند السؤال عن %s راجع المدير أولا", "إذا كان الموضوع %s فالأولوية عالية"},
		[]string{"مرحبا، عندي سؤال عن %s من فضلك", "أرجو المساعدة في %s اليوم"},
		strings.Fields("السفر الطعام المدرسة السيارة الكتاب الطقس الحديقة المطار الهاتف الصورة الموسيقى الرياضة المسجد السوق الشارع القطار الطبيب الدواء المطبخ النافذة"),
		strings.Fields("الاثنين الثلاثاء الأربعاء الخميس الجمعة القاهرة دبي عمان بيروت الرباط تونس بغداد الدوحة الرياض جدة مسقط صنعاء دمشق الكويت المنامة"),
	},
	{
		"thai", thai,
		[]string{"ถ้าเป็นเรื่อง%sให้ส่งต่อทีม", "เมื่อถามเรื่อง%sให้ถามหัวหน้าก่อน"},
		[]string{"สวัสดีครับ ผมมีเรื่อง%sครับ", "ช่วยด้วย %sวันนี้"},
		strings.Fields("การเดินทาง อาหาร โรงเรียน รถยนต์ หนังสือ อากาศ สวน สนามบิน โทรศัพท์ รูปภาพ ดนตรี กีฬา วัด ตลาด ถนน รถไฟ หมอ ยา ครัว หน้าต่าง"),
		strings.Fields("วันจันทร์ วันอังคาร วันพุธ วันพฤหัส วันศุกร์ กรุงเทพ เชียงใหม่ ภูเก็ต พัทยา ขอนแก่น อยุธยา ระยอง ตรัง น่าน แพร่ เลย สตูล ยะลา พังงา กระบี่"),
	},
	{
		"mixed", mixed,
		[]string{"For %s, send the request to the team", "Questions about %s go to the manager first"},
		[]string{"%s"},
		strings.Fields("MySQL ERR-9001 Docker Oracle Geneva B737 getOrder Mastercard Redis Kafka Jira Slack Paypal Boeing Azure Lambda Nginx Tomcat Spark Hive"),
		strings.Fields("11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30"),
	},
}

// languageRank counts the tasks that have a rule among the first places, among 400 other rules of the same language: with shift 0 the rule that
// decides the task, with another shift the rule of another noun.
func languageRank(c, places, shift int) (found, all int) {
	l := &languageCases[c]
	var w recall.WordIndex
	for i := range 400 {
		noun := l.others[i%20] + " " + l.otherFeatures[i/20]
		w.Put(fmt.Sprint("other-", i), fmt.Sprintf(l.rules[i%len(l.rules)], noun))
	}
	for i, n := range l.nouns {
		w.Put(fmt.Sprint(i), fmt.Sprintf(l.rules[i%len(l.rules)], n.rule))
	}
	for i, n := range l.nouns {
		for _, task := range l.tasks {
			all++
			for _, m := range w.Top(fmt.Sprintf(task, n.task), places) {
				if m.Key == fmt.Sprint((i+shift)%len(l.nouns)) {
					found++
				}
			}
		}
	}
	return found, all
}

// TestLanguagesAreFound checks that a task finds the rule that decides it by words alone, in the first 20 places of 412.
func TestLanguagesAreFound(t *testing.T) {
	t.Parallel()
	for i, c := range languageCases {
		found, all := languageRank(i, 20, 0)
		t.Logf("%s: %d of %d", c.name, found, all)
		if 10*found < 6*all {
			t.Errorf("%s: got %d of %d rules, want at least 60 %%", c.name, found, all)
		}
		if wrong, _ := languageRank(i, 20, 1); 10*wrong > 3*all {
			t.Errorf("control %s: got the rule of another noun in %d of %d tasks", c.name, wrong, all)
		}
	}
}

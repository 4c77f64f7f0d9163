package ir

// efforts are the levels of reasoning and the budgets in tokens that they stand for (facts/protocols.md, 5.5).
var efforts = [...]struct {
	name   string
	budget int64
}{{"minimal", 512}, {"low", 1024}, {"medium", 8192}, {"high", 24576}, {"xhigh", 32768}, {"max", 128000}}

// BudgetOf returns the tokens that an effort stands for, 0 for an unknown one.
func BudgetOf(effort string) int64 {
	for _, e := range efforts {
		if e.name == effort {
			return e.budget
		}
	}
	return 0
}

// EffortOf returns the level that a budget falls into: up to 512 minimal, 1024 low, 8192 medium, 24576 high, else xhigh.
// 0 and -1 give "".
func EffortOf(budget int64) string {
	if budget <= 0 {
		return ""
	}
	for _, e := range efforts[:4] {
		if budget <= e.budget {
			return e.name
		}
	}
	return "xhigh"
}

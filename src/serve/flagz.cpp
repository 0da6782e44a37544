#include "serve/flagz.h"

namespace serve {

ZPage flagz(const FlagTexts& flags) {
  ZPage page{.name = "flagz", .kind = "Flagz"};
  codec::Value::Object values;
  for (const auto& [name, value] : flags) {
    page.text += name + ":" + value + "\n";
    values.push_back({name, {}, codec::Value(value)});
  }
  page.fields.push_back({"flags", {}, codec::Value(std::move(values))});
  return page;
}

}  // namespace serve

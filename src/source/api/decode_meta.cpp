// metav1.ObjectMeta.

#include "source/api/decode_message.h"
#include "source/api/decode_object.h"

namespace source::api {

namespace {

// The value of a key in a map, which is a list of {1: key, 2: value}; the last one counts.
std::optional<std::string_view> map_value(std::string_view message, uint32_t field,
                                          std::string_view key) {
  std::optional<std::string_view> found;
  each_field(message, field, [&](std::string_view entry) {
    if (first_field(entry, 1) == key) found = first_field(entry, 2);
  });
  return found;
}

}  // namespace

std::optional<std::string_view> Meta::label(std::string_view key) const {
  return map_value(message, 11, key);
}

std::optional<std::string_view> Meta::annotation(std::string_view key) const {
  return map_value(message, 12, key);
}

Meta read_meta(std::string_view object) {
  Meta meta;
  meta.message = first_field(object, 1);
  MessageReader reader(meta.message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case bytes_field(1):
        meta.name = reader.get_view();
        break;
      case bytes_field(3):
        meta.ns = reader.get_view();
        break;
      case bytes_field(6):
        meta.resource_version = reader.get_view();
        break;
      case bytes_field(9):
        meta.deleting = true;
        reader.skip();
        break;
      default:
        reader.skip();
    }
  }
  return meta;
}

}  // namespace source::api

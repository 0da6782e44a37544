// Protobuf messages, field by field: protozero with string_view, and the only file that includes it.
//
// Everything throws protozero::exception on broken bytes; decode_proto.cpp catches it. A field of an
// unexpected wire type counts as unknown and is skipped: protozero's own functions would only assert.
// For the same reason there is no get_bool() here, which looks behind the end of the buffer.
#pragma once

#include <string_view>

#include <protozero/pbf_reader.hpp>

namespace source::api {

using MessageReader = protozero::pbf_reader;

// For a switch over MessageReader::tag_and_type(): a text, bytes or a message, and a number.
constexpr uint32_t bytes_field(uint32_t number) {
  return protozero::tag_and_type(number, protozero::pbf_wire_type::length_delimited);
}
constexpr uint32_t number_field(uint32_t number) {
  return protozero::tag_and_type(number, protozero::pbf_wire_type::varint);
}

// Calls visit(std::string_view) for each appearance of a text or message.
template <typename Visit>
void each_field(std::string_view message, uint32_t number, Visit visit) {
  MessageReader reader(message);
  while (reader.next(number, protozero::pbf_wire_type::length_delimited))
    visit(reader.get_view());
}

// The first appearance of a text or message; empty if there is none.
inline std::string_view first_field(std::string_view message, uint32_t number) {
  MessageReader reader(message);
  return reader.next(number, protozero::pbf_wire_type::length_delimited) ? reader.get_view()
                                                                         : std::string_view{};
}

inline size_t count_fields(std::string_view message, uint32_t number) {
  size_t count = 0;
  each_field(message, number, [&](std::string_view) { ++count; });
  return count;
}

}  // namespace source::api

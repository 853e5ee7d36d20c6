/** Cuts a list into parts of at most `size`, in order; none if it is empty. */
export function* inParts<Item>(
  items: readonly Item[],
  size: number,
): Generator<readonly Item[], void, undefined> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size)
}

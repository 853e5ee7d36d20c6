/** How high a row of a list is: on a narrow screen it has two lines. The style sheet has the same two numbers. */
import { signal } from '@preact/signals'

const narrow = matchMedia('(max-width: 720px)')
const isNarrow = signal(narrow.matches)
narrow.addEventListener('change', () => (isNarrow.value = narrow.matches))

export function useRowHeight(): number {
  return isNarrow.value ? 56 : 30
}

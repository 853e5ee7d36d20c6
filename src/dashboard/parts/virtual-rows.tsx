/**
 * A list of any length, of which only what can be seen is there. It is one stop of the keyboard: arrows choose a row, which
 * `aria-activedescendant` names, Enter opens it.
 */
import type { ComponentChild, JSX, RefObject } from 'preact'
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { signal, useSignal, type Signal } from '@preact/signals'

export interface VirtualRowsProps<Item> {
  readonly label: string
  readonly items: readonly Item[]
  readonly columns: number
  readonly head: ComponentChild
  /** Its cells. */
  readonly render: (item: Item) => ComponentChild
  readonly classOf: (item: Item) => string
  /** Enter, or a click on the row. */
  readonly onOpen: (item: Item) => void
  /** Shown instead of rows. */
  readonly empty: ComponentChild
}

const OVERSCAN = 6

/** On a narrow screen a row has two lines. The style sheet has the same two heights. */
const narrow = matchMedia('(max-width: 720px)')
const isNarrow = signal(narrow.matches)
narrow.addEventListener('change', () => (isNarrow.value = narrow.matches))

export function VirtualRows<Item>(props: VirtualRowsProps<Item>): JSX.Element {
  const { label, items, columns, head, empty } = props
  const rowHeight = isNarrow.value ? 56 : 30
  const { scroller, top, height, show } = useScroller(rowHeight)
  const chosen = useSignal(-1)
  const first = Math.max(0, Math.floor(top.value / rowHeight) - OVERSCAN)
  const last = Math.min(items.length, Math.ceil((top.value + height.value) / rowHeight) + OVERSCAN)
  // The same number in every frame, or all rows would change their places.
  const pool = Math.ceil(height.value / rowHeight) + 2 * OVERSCAN + 2
  const onKey = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor(height.value / rowHeight) - 2)
    const step = STEPS[event.key]?.(chosen.value, page, items.length)
    const item = items[chosen.value]
    if (step !== undefined) {
      chosen.value = Math.max(0, Math.min(items.length - 1, step))
      show(chosen.value)
    } else if (event.key === 'Enter' && item !== undefined) props.onOpen(item)
    else return
    event.preventDefault()
  }
  const isChosenShown = chosen.value >= first && chosen.value < last
  return (
    <div
      class="scroller"
      ref={scroller}
      onScroll={(event) => (top.value = event.currentTarget.scrollTop)}
      onKeyDown={onKey}
      tabIndex={0}
      role="grid"
      aria-label={label}
      aria-rowcount={items.length + 1}
      aria-colcount={columns}
      {...(isChosenShown ? { 'aria-activedescendant': `row-${chosen.value}` } : {})}
    >
      {head}
      {items.length === 0 ? <div class="empty">{empty}</div> : null}
      <div class="canvas" role="rowgroup" style={{ height: `${items.length * rowHeight}px` }}>
        {items.slice(first, last).map((item, offset) => (
          <VirtualRow
            // Rows are used again as they leave on one side and come in on the other.
            key={(first + offset) % pool}
            index={first + offset}
            rowHeight={rowHeight}
            className={props.classOf(item)}
            chosen={chosen}
            item={item}
            render={props.render}
            onOpen={props.onOpen}
          />
        ))}
      </div>
    </div>
  )
}

interface RowProps<Item> {
  readonly index: number
  readonly rowHeight: number
  readonly className: string
  readonly chosen: Signal<number>
  readonly item: Item
  readonly render: (item: Item) => ComponentChild
  readonly onOpen: (item: Item) => void
}

function VirtualRow<Item>(props: RowProps<Item>): JSX.Element {
  const { index, rowHeight, className, chosen, item, render, onOpen } = props
  // Laid out once for each item: a row that only moves on is not looked at again.
  const cells = useMemo(() => render(item), [item])
  const isChosen = index === chosen.value
  return (
    <div
      id={`row-${index}`}
      class={`row ${className}${isChosen ? ' chosen' : ''}`}
      style={{ transform: `translateY(${index * rowHeight}px)` }}
      role="row"
      aria-rowindex={index + 2}
      aria-selected={isChosen}
      onClick={(event) => {
        chosen.value = index
        const isOwn = event.target instanceof Element && event.target.closest('a, button') === null
        if (isOwn) onOpen(item)
      }}
    >
      {cells}
    </div>
  )
}

interface Scroller {
  readonly scroller: RefObject<HTMLDivElement | null>
  readonly top: Signal<number>
  readonly height: Signal<number>
  /** Scrolls until a row can be seen. */
  readonly show: (index: number) => void
}

function useScroller(rowHeight: number): Scroller {
  const scroller = useRef<HTMLDivElement>(null)
  const top = useSignal(0)
  const height = useSignal(600)
  useLayoutEffect(() => {
    const element = scroller.current
    if (element === null) return
    const observer = new ResizeObserver(() => (height.value = element.clientHeight))
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  const show = (index: number): void => {
    const element = scroller.current
    if (element === null) return
    // The head of the list covers the height of one row.
    const inner = height.value - rowHeight
    const from = index * rowHeight
    if (from < element.scrollTop) element.scrollTop = from
    else if (from + rowHeight > element.scrollTop + inner) {
      element.scrollTop = from + rowHeight - inner
    }
  }
  return { scroller, top, height, show }
}

type Step = (index: number, page: number, count: number) => number

const STEPS: Readonly<Record<string, Step>> = {
  ArrowDown: (index) => index + 1,
  ArrowUp: (index) => index - 1,
  PageDown: (index, page) => index + page,
  PageUp: (index, page) => index - page,
  Home: () => 0,
  End: (_index, _page, count) => count - 1,
}

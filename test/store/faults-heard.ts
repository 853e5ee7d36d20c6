/** What was reported while a test ran. */
import { onTestFinished } from 'vitest'
import { onFault, type Fault } from '../../src/runtime/diagnostics.ts'

export interface HeardFaults {
  readonly all: readonly Fault[]
  of(source: string): readonly Fault[]
  /** The first report of a source, as soon as there is one. */
  first(source: string): Promise<Fault>
}

export function hearFaults(): HeardFaults {
  const all: Fault[] = []
  let news: () => void = () => undefined
  const leave = onFault((fault) => {
    all.push(fault)
    news()
  })
  onTestFinished(leave)
  const of = (source: string): readonly Fault[] => all.filter((fault) => fault.source === source)
  const first = async (source: string): Promise<Fault> => {
    for (;;) {
      const [fault] = of(source)
      if (fault !== undefined) return fault
      await new Promise<void>((resolve) => {
        news = resolve
      })
    }
  }
  return { all, of, first }
}

import { describe, expect, it } from 'vitest'
import { LetGo } from '../../src/client/let-go.ts'

const REALM = 'work:a'

describe('what a client let go of', () => {
  it('is known while somebody asks for the same realm, and not longer', () => {
    const letGo = new LetGo()
    letGo.begin([REALM])
    letGo.begin([REALM])
    letGo.note('one', REALM)
    letGo.end([REALM])
    expect(letGo.has('one', REALM)).toBe(true)
    letGo.end([REALM])
    expect(letGo.has('one', REALM)).toBe(false)
  })

  it('is known to whoever asks for that lease by its id', () => {
    const letGo = new LetGo()
    letGo.begin(['one'])
    letGo.note('one', REALM)
    letGo.note('two', REALM)
    expect(letGo.has('one', REALM)).toBe(true)
    expect(letGo.has('two', REALM)).toBe(false)
  })

  it('is not kept where nobody asks', () => {
    const letGo = new LetGo()
    letGo.begin(['work:b'])
    letGo.note('one', REALM)
    letGo.begin([REALM])
    expect(letGo.has('one', REALM)).toBe(false)
  })

  it('is bounded where somebody always asks: the latest are known', () => {
    const letGo = new LetGo()
    letGo.begin([REALM])
    for (let index = 0; index < 5_000; index += 1) letGo.note(`lease-${index}`, REALM)
    expect(letGo.has('lease-4999', REALM)).toBe(true)
    expect(letGo.has('lease-4600', REALM)).toBe(true)
    expect(letGo.has('lease-0', REALM)).toBe(false)
  })
})

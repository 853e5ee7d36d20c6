import { describe, expect, it } from 'vitest'
import { CampaignUsageError, helpOf, readCampaignOptions } from '../../campaign/campaign-options.ts'

const NAMES = ['museum', 'chaos']
const read = (...args: readonly string[]) => readCampaignOptions(args, NAMES, () => 0.5)

describe('the options of the campaign', () => {
  it('are all parts, whole steps and a seed by chance unless given', () => {
    expect(read()).toMatchObject({ parts: NAMES, minutes: 15, resume: false, seed: 2 ** 30 })
  })

  it('name parts in the order of the campaign, shorten steps and fix the seed', () => {
    const args = ['--only', 'chaos, museum', '--minutes', '0.5', '--seed', '42', '--resume']
    expect(read(...args)).toMatchObject({ parts: NAMES, minutes: 0.5, seed: 42, resume: true })
  })

  it.each([
    [['--only', 'sleep'], /--only must be some of museum, chaos, got sleep/],
    [['--minutes', '16'], /--minutes must be above 0, up to 15, got 16/],
    [['--minutes', '0'], /got 0/],
    [['--seed', '1.5'], /--seed must be a whole number/],
    [['--often'], /Unknown option '--often'; see --help/],
  ])('are refused with one line: %j', (args, message) => {
    expect(() => read(...args)).toThrow(CampaignUsageError)
    expect(() => read(...args)).toThrow(message)
  })

  it('are listed by --help', () => {
    expect(read('--help').isHelp).toBe(true)
    const option = /^ {2}(?:-h, )?--([a-z]+)/gm
    const listed = [...helpOf(NAMES).matchAll(option)].map(([, name]) => name)
    expect(listed).toEqual(['only', 'step', 'resume', 'minutes', 'write', 'seed', 'page', 'help'])
  })
})

import { describe, expect, it } from 'vitest'
import { lineDiff } from '../../src/cli/file-change.ts'

describe('the difference of two texts', () => {
  it.each([
    ['is nothing for the same', 'a\nb\n', 'a\nb\n', []],
    ['of a new text is all of it', '', 'a\nb\n', ['@@ -0,0 +1,2 @@', '+a', '+b']],
    ['of one that is gone is all of it', 'a\n', '', ['@@ -1,1 +0,0 @@', '-a']],
    [
      'has three lines around it',
      '1\n2\n3\n4\n5\n6\n7\n8\n',
      '1\n2\n3\n4\nx\n5\n6\n7\n8\n',
      [...['@@ -2,6 +2,7 @@', ' 2', ' 3', ' 4', '+x', ' 5', ' 6', ' 7']],
    ],
    [
      'keeps apart what is far apart',
      'x\n1\n2\n3\n4\n5\n6\n7\nx\n',
      'y\n1\n2\n3\n4\n5\n6\n7\ny\n',
      [
        ...['@@ -1,4 +1,4 @@', '-x', '+y', ' 1', ' 2', ' 3'],
        ...['@@ -6,4 +6,4 @@', ' 5', ' 6', ' 7', '-x', '+y'],
      ],
    ],
    [
      'shows what stayed in between',
      'a\nb\nc\n',
      'x\nb\ny\nc\nz\n',
      [...['@@ -1,3 +1,5 @@', '-a', '+x', ' b', '+y', ' c', '+z']],
    ],
    [
      'tells of a missing line break',
      'a',
      'a\n',
      [...['@@ -1,1 +1,1 @@', '-a\n\\ No newline at end of file', '+a']],
    ],
  ])('%s', (_, before, after, expected) => {
    expect(lineDiff(before, after)).toEqual(expected)
  })
})

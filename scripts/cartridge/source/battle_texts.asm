; What is said in a fight.

text_menu:
    db "A: ATTACK", NEWLINE, "B: RUN", END
text_away:
    db "YOU GOT AWAY.", END
text_caught:
    db "IT WON'T LET YOU!", END
text_no_running:
    db "NO RUNNING NOW!", END
text_swap:
    db "YOUR FRIEND RESTS.", NEWLINE, "THE NEXT STEPS IN.", END
text_next:
    db "ANOTHER ONE", NEWLINE, "STEPS FORWARD!", END
text_defeat:
    db "EVERYONE IS TIRED.", NEWLINE, "YOU HURRY BACK...", END
text_down:
    db " IS OUT!", END
text_grew:
    db " GREW!", END
